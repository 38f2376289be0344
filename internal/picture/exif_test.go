package picture

import (
	"testing"
)

// TestOrientationTag: what is not understood is upright, and nothing outside of the bytes is read.
func TestOrientationTag(t *testing.T) {
	t.Parallel()
	entry := "\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00"
	for text, want := range map[string]int{
		"MM\x00*\x00\x00\x00\x08\x00\x01" + entry:                                         6,
		"MM\x00*\x00\x00\x00\x08\x00\x02" + entry:                                         6, // fewer entries than it says, but this one is there
		"MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x04\x00\x00\x00\x01\x00\x00\x00\x08": 8, // LONG
		"MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x09\x00\x00": 1, // no such way
		"MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x02\x00\x00\x00\x01\x00\x06\x00\x00": 1, // a text
		"MM\x00*\x00\x00\x00\x08\x00\x00" + entry:                                         1, // no entries
		"MM\x00*\xFF\xFF\xFF\xFF":                                                         1,
		"MM\x00*\x00\x00\x00\x07":                                                         1,
		"II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x03\x00\x00\x00": 3,
		"":                            1,
		"MM":                          1,
		"PK\x00*\x00\x00\x00\x08\x00": 1,
	} {
		if got := orientation([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// FuzzOrientation: no bytes lead out of them, in any of the containers.
func FuzzOrientation(f *testing.F) {
	f.Add([]byte("MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00"))
	f.Add([]byte("II*\x00\xFF\xFF\xFF\x7F"))
	f.Add([]byte("\xFF\xE1\x00\x10Exif\x00\x00MM\x00*\xFF\xDA\x00\x03\xFF"))
	f.Add([]byte("\x00\x00\x00\x04eXIfMM\x00*sum!\xFF\xFF\xFF\xFFIDAT"))
	f.Add([]byte("EXIF\x04\x00\x00\x00II*\x00XMP \xFF\xFF\xFF\xFF"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		walked := walkJPEG(append([]byte("\xFF\xD8"), raw...))
		for _, exif := range [][]byte{
			raw, walked.exif, exifOfPNG(append([]byte("\x89PNG\r\n\x1A\n"), raw...)), exifOfWebP(append([]byte("RIFF\x00\x00\x00\x00WEBP"), raw...)),
		} {
			if turn := orientation(exif); turn < 1 || turn > 8 {
				t.Fatalf("%d", turn)
			}
		}
	})
}
