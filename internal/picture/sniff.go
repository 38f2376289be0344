package picture

import (
	"bytes"
	"cmp"
)

// Sniff tells the type of a picture by its first bytes; text/html for a page, also where that is XML; empty: nothing that is known.
func Sniff(raw []byte) string {
	for _, s := range []struct{ begin, kind string }{
		{"\xFF\xD8\xFF", JPEG}, {"\x89PNG\r\n\x1A\n", PNG}, {"GIF87a", GIF}, {"GIF89a", GIF},
		{"BM", "image/bmp"}, {"II*\x00", "image/tiff"}, {"MM\x00*", "image/tiff"}, {"\x00\x00\x01\x00", "image/x-icon"},
		{"\xFF\x0A", "image/jxl"}, {"\x00\x00\x00\x0CJXL ", "image/jxl"}, {"%PDF-", "application/pdf"},
	} {
		if bytes.HasPrefix(raw, []byte(s.begin)) {
			return s.kind
		}
	}
	if len(raw) >= 12 {
		switch begin, brand := string(raw[:4]), string(raw[8:12]); {
		case begin == "RIFF" && brand == "WEBP":
			return WebP
		case string(raw[4:8]) != "ftyp":
		case brand == "avif" || brand == "avis":
			return "image/avif"
		case brand == "heic" || brand == "heix" || brand == "mif1" || brand == "msf1":
			return "image/heic"
		}
	}
	return markup(raw)
}

const mostMarkup = 4 << 10 // bytes in which a page or a drawing has to say that it is one

func markup(raw []byte) string {
	text := bytes.TrimLeft(bytes.TrimPrefix(raw[:min(len(raw), mostMarkup)], []byte("\xEF\xBB\xBF")), " \t\r\n\f")
	if !bytes.HasPrefix(text, []byte("<")) {
		return ""
	}
	text = bytes.ToLower(text)
	svg, page := bytes.Index(text, []byte("<svg")), bytes.Index(text, []byte("<html"))
	if doc := bytes.Index(text, []byte("<!doctype html")); doc >= 0 && (page < 0 || doc < page) {
		page = doc
	}
	if svg >= 0 && (page < 0 || svg < page) {
		return "image/svg+xml"
	}
	return "text/html"
}

func kind(sniffed string) string { return cmp.Or(sniffed, "what is no known picture") }
