package picture_test

import (
	"encoding/binary"
	"errors"
	"image"
	"testing"

	"pawl/internal/picture"
)

// FuzzCheck: whatever the bytes are, there is an answer, and what is called a picture is one and can be made to fit. No more than a
// megapixel is decoded.
func FuzzCheck(f *testing.F) {
	small := quarters(16, 12)
	exif := tiff(binary.BigEndian, 6)
	j, p := jpegOf(f, small, 90), pngOf(f, small)
	for _, raw := range [][]byte{
		nil, j, p, j[:len(j)/2], p[:len(p)/2], behindStart(j, segment(0xE1, append([]byte("Exif\x00\x00"), exif...))),
		append(p[:33:33], append(chunk("eXIf", exif), p[33:]...)...), fourColors(f, nil, [4]byte{1, 2, 3, 4}),
		pngOf(f, image.NewGray16(image.Rect(0, 0, 3, 3))), []byte("GIF89a"), []byte("<svg/>"), []byte("<!DOCTYPE html>"), []byte("RIFF\x00\x00\x00\x00WEBPVP8 "),
		[]byte("\x00\x00\x00\x20ftypavif"), []byte("\xFF\xD8\xFF"), []byte("\x89PNG\r\n\x1A\n"),
	} {
		f.Add(raw)
	}
	room := picture.NewRoom(64 << 20)
	limits := picture.Limits{MaxPixels: 1 << 20}
	f.Fuzz(func(t *testing.T, raw []byte) {
		info, err := room.Check(t.Context(), raw, limits)
		var flaw *picture.Error
		switch {
		case err != nil && !errors.As(err, &flaw):
			t.Fatalf("not an *Error: %v", err)
		case err != nil:
			return
		case info.Width < 1 || info.Height < 1 || info.Turn < 1 || info.Turn > 8 || info.Type != picture.Sniff(raw):
			t.Fatalf("%+v", info)
		}
		tight := picture.Limits{Types: []string{picture.JPEG, picture.PNG}, MaxSide: 200, MaxBytes: 100_000}
		out, fit, err := room.Fit(t.Context(), raw, tight)
		if err != nil {
			t.Fatalf("%+v, but it does not fit: %v", info, err)
		}
		if again, err := room.Check(t.Context(), out, tight); err != nil || again != fit {
			t.Fatalf("%+v, %v, it was said to be %+v", again, err, fit)
		}
	})
}
