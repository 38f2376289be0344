package picture

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/jpeg"
	"slices"
)

// The markers of JPEG that matter here: ITU-T T.81, table B.1.
const (
	soi   = 0xD8
	eoi   = 0xD9
	sos   = 0xDA
	rst0  = 0xD0
	rst7  = 0xD7
	app1  = 0xE1
	app14 = 0xEE
	sof0  = 0xC0
	sof2  = 0xC2
	sof15 = 0xCF
	dht   = 0xC4
	jpg   = 0xC8
	dac   = 0xCC
)

// jpegFacts are what the segments of a JPEG say that image/jpeg does not tell.
type jpegFacts struct {
	exif        []byte
	parts       int  // of a color: 1, 3 or 4
	progressive bool // all coefficients are held until the last pass
	adobe       bool // it says whose four colors these are
	scans       int
	ended       bool // by its marker, and every coefficient was sent to its last bit
	sent        [4]struct {
		id   byte
		bits [64]byte // that are still to come of a coefficient, and one
	}
}

// walkJPEG goes from marker to marker, as liberally as the decoder: what stands between them is skipped.
func walkJPEG(raw []byte) (f jpegFacts) {
	for rest := raw; ; {
		at := bytes.IndexByte(rest, 0xFF)
		if at < 0 || at+1 >= len(rest) {
			return f
		}
		rest = rest[at+1:]
		marker := rest[0]
		switch {
		case marker == 0xFF: // fills
			continue
		case marker == eoi:
			f.ended = f.complete()
			return f
		case marker <= 1, marker == soi, marker >= rst0 && marker <= rst7:
			rest = rest[1:]
			continue
		}
		if len(rest) < 3 {
			return f
		}
		n := int(binary.BigEndian.Uint16(rest[1:]))
		if n < 2 || n >= len(rest) {
			return f
		}
		f.note(marker, rest[3:1+n])
		rest = rest[1+n:]
	}
}

func (f *jpegFacts) note(marker byte, segment []byte) {
	switch {
	case marker == sos:
		f.scans++
		f.scan(segment)
	case marker == app1 && f.exif == nil && f.scans == 0 && bytes.HasPrefix(segment, []byte(exifMark)):
		f.exif = segment[len(exifMark):]
	case marker == app14 && bytes.HasPrefix(segment, []byte("Adobe")):
		f.adobe = true
	case marker == dht || marker == jpg || marker == dac:
	case marker >= sof0 && marker <= sof15 && len(segment) >= 6:
		f.parts, f.progressive = int(segment[5]), marker == sof2
		for i := range min(f.parts, len(f.sent), (len(segment)-6)/3) {
			f.sent[i].id = segment[6+3*i]
		}
	}
}

// scan notes which bits of which coefficients one pass sends: of the parts that it lists, from one to another, down to one bit.
func (f *jpegFacts) scan(segment []byte) {
	if len(segment) < 1 || len(segment) < 4+2*int(segment[0]) {
		return
	}
	parts, rest := segment[1:1+2*int(segment[0])], segment[1+2*int(segment[0]):]
	for i := range f.sent[:min(f.parts, len(f.sent))] {
		part := &f.sent[i]
		for p := 0; p < len(parts); p += 2 {
			for k := rest[0]; parts[p] == part.id && k <= min(rest[1], 63); k++ {
				part.bits[k] = 1 + rest[2]&15
			}
		}
	}
}

// complete says whether a progressive JPEG has sent all: one that was cut between two passes, and given an end, looks whole.
func (f *jpegFacts) complete() bool {
	for _, part := range f.sent[:min(f.parts, len(f.sent))] {
		for _, bits := range part.bits {
			if f.progressive && bits != 1 {
				return false
			}
		}
	}
	return true
}

// decode has image/jpeg decode, and helps it over what it refuses: an end that is missing, and four colors that nobody has claimed.
// Those are CMYK as it is; what says that it is Adobe's has every color inverted, which image/jpeg knows.
func (f jpegFacts) decode(raw []byte) (image.Image, error) {
	plain := f.parts == 4 && !f.adobe
	if plain {
		claim := []byte{0xFF, app14, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0}
		raw = slices.Concat(raw[:2], claim, raw[2:])
	}
	if !f.ended { // one end too many is never read
		raw = slices.Concat(raw, []byte{0xFF, eoi})
	}
	m, err := jpeg.Decode(bytes.NewReader(raw))
	if c, ok := m.(*image.CMYK); ok && plain {
		for i := range c.Pix {
			c.Pix[i] = ^c.Pix[i]
		}
	}
	return m, err
}
