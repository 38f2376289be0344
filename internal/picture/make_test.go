package picture_test

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"slices"
	"testing"
)

// quarters is a picture of four colors, so that whichever way it is turned can be seen.
func quarters(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.Set(x, y, []color.RGBA{{220, 30, 30, 255}, {30, 200, 30, 255}, {30, 30, 220, 255}, {240, 240, 240, 255}}[x*2/w+y*2/h*2])
		}
	}
	return m
}

func jpegOf(t testing.TB, m image.Image, quality int) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := jpeg.Encode(&out, m, &jpeg.Options{Quality: quality}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func pngOf(t testing.TB, m image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func segment(marker byte, content []byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{0xFF, marker}, uint16(len(content)+2)), content...)
}

// behindStart puts segments behind the start of a JPEG.
func behindStart(raw []byte, segments ...[]byte) []byte {
	return slices.Concat(raw[:2], slices.Concat(segments...), raw[2:])
}

// padded makes a JPEG as large as is wanted, by comments.
func padded(t testing.TB, raw []byte, size int) []byte {
	t.Helper()
	var comments []byte
	for left := size - len(raw); left > 0; left = size - len(raw) - len(comments) {
		n := min(left-4, 60_000)
		if rest := left - 4 - n; rest > 0 && rest < 4 {
			n -= 4
		}
		comments = append(comments, segment(0xFE, make([]byte, n))...)
	}
	out := behindStart(raw, comments)
	if len(out) != size {
		t.Fatalf("%d bytes, want %d", len(out), size)
	}
	return out
}

// tiff is EXIF with one orientation.
func tiff(order binary.AppendByteOrder, turn int) []byte {
	b := []byte("II")
	if order == binary.AppendByteOrder(binary.BigEndian) {
		b = []byte("MM")
	}
	b = order.AppendUint32(order.AppendUint16(b, 42), 8)
	b = order.AppendUint16(b, 2) // entries: one that is not looked for, and the one that is
	for _, e := range [][4]uint32{{0x010F, 2, 1, 0}, {0x0112, 3, 1, uint32(turn)}} {
		b = order.AppendUint32(order.AppendUint16(order.AppendUint16(b, uint16(e[0])), uint16(e[1])), e[2])
		b = order.AppendUint16(order.AppendUint16(b, uint16(e[3])), 0)
	}
	return order.AppendUint32(b, 0)
}

// fourColors is a JPEG with one plane for each of four colors, each of one value: what Go's encoder cannot write is put together
// from four grey ones. Adobe's claim is put before it where there is one.
func fourColors(t testing.TB, claim []byte, values [4]byte) []byte {
	t.Helper()
	const side = 64
	var frame, tables, scans []byte
	for i, v := range values {
		plane := image.NewGray(image.Rect(0, 0, side, side))
		for j := range plane.Pix {
			plane.Pix[j] = v
		}
		for rest := jpegOf(t, plane, 95)[2:]; rest[1] != 0xD9; {
			n := 2 + int(binary.BigEndian.Uint16(rest[2:]))
			part := slices.Clone(rest[:n])
			rest = rest[n:]
			switch part[1] {
			case 0xC0:
				frame = part
			case 0xDA:
				data := bytes.Index(rest, []byte{0xFF, 0xD9})
				part[5] = byte(i + 1)
				scans = slices.Concat(scans, part, rest[:data])
				rest = rest[data:]
			default:
				if i == 0 {
					tables = append(tables, part...)
				}
			}
		}
	}
	content := append(slices.Clone(frame[4:9]), 4)
	for i := range 4 {
		content = append(content, byte(i+1), 0x11, 0)
	}
	return slices.Concat([]byte{0xFF, 0xD8}, claim, tables, segment(0xC0, content), scans, []byte{0xFF, 0xD9})
}
