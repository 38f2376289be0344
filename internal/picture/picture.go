// Package picture guards what is to be seen: whether bytes are a picture that can be decoded, and how they become one that somebody
// else takes.
//
// It may never believe a name or a header of HTTP, decode what it has not measured, keep a picture, or recognize what is in it.
//
// Start reading at Room, where pictures are decoded; Limits is what they are held to.
package picture

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"

	"golang.org/x/image/webp"
)

// The types that can be decoded.
const (
	JPEG = "image/jpeg"
	PNG  = "image/png"
	GIF  = "image/gif"
	WebP = "image/webp"
)

// MostPixels is the most that is decoded. A header can say so many that no machine has the memory.
const MostPixels = 50_000_000

// mostScans is the most passes of a progressive JPEG that are decoded: each costs the time of the whole picture, and a few bytes.
// Encoders write about ten.
const mostScans = 100

// Info is what is known of a picture.
type Info struct {
	Type    string
	Width   int // pixels, upright
	Height  int
	Turn    int  // the orientation of EXIF, 1 to 8, that makes it upright; 1: it is
	Partial bool // its end is missing, and yet it can be decoded
	Flat    bool // it has one color all over: whatever is measured of it is noise
}

// Limits are what a picture has to keep. What is 0 or nil does not limit, but for MostPixels.
type Limits struct {
	Types     []string // that are taken
	MaxBytes  int
	MinSide   int // pixels of the shorter side
	MaxSide   int // of the longer one
	MaxPixels int
}

// The codes of an Error.
const (
	CodeEmpty    = "empty"
	CodePage     = "html_instead_of_image"
	CodeType     = "unsupported_type"
	CodeCorrupt  = "corrupt"
	CodePixels   = "too_many_pixels"
	CodeTooLarge = "too_large"
	CodeTooSmall = "too_small"
)

// Error is why bytes are no picture that can be used. Trying again does not help.
type Error struct{ Code, Text string }

func (e *Error) Error() string { return "picture: " + e.Text }

func flaw(code, format string, args ...any) error { return &Error{code, fmt.Sprintf(format, args...)} }

// header is what is known before anything is decoded.
type header struct {
	Info
	bounds image.Rectangle // as it is stored
	model  color.Model
	jpeg   jpegFacts
	laced  bool // a PNG in seven passes
}

// read measures a picture by its header.
func read(raw []byte) (h header, err error) {
	if len(raw) == 0 {
		return h, flaw(CodeEmpty, "no bytes")
	}
	h.Type = Sniff(raw)
	var c image.Config
	switch h.Type {
	case JPEG:
		if h.jpeg = walkJPEG(raw); h.jpeg.scans > mostScans {
			return h, flaw(CodeCorrupt, "%d passes, more than any picture has", h.jpeg.scans)
		}
		h.Turn, h.Partial = orientation(h.jpeg.exif), !h.jpeg.ended
		c, err = jpeg.DecodeConfig(bytes.NewReader(raw))
	case PNG:
		h.Turn, h.laced = orientation(exifOfPNG(raw)), len(raw) > 28 && raw[28] != 0
		c, err = png.DecodeConfig(bytes.NewReader(raw))
	case GIF:
		h.Turn = 1
		c, err = gif.DecodeConfig(bytes.NewReader(raw))
	case WebP:
		h.Turn = orientation(exifOfWebP(raw))
		c, err = webp.DecodeConfig(bytes.NewReader(raw))
	case "text/html":
		return h, flaw(CodePage, "a page instead of a picture")
	default:
		return h, flaw(CodeType, "%s cannot be decoded", kind(h.Type))
	}
	if err != nil {
		return h, undecodable(err)
	}
	if c.Width <= 0 || c.Height <= 0 {
		return h, flaw(CodeCorrupt, "%d × %d pixels", c.Width, c.Height)
	}
	h.bounds, h.model = image.Rect(0, 0, c.Width, c.Height), c.ColorModel
	if h.Width, h.Height = c.Width, c.Height; h.Turn > 4 {
		h.Width, h.Height = c.Height, c.Width
	}
	if h.Width > MostPixels/h.Height {
		return h, flaw(CodePixels, "%d × %d pixels, at most %d are decoded", h.Width, h.Height, MostPixels)
	}
	return h, nil
}

// flaw is why a picture does not keep the limits; nil: it does.
func (l Limits) flaw(h header, size int) error {
	switch {
	case l.Types != nil && !slices.Contains(l.Types, h.Type):
		return flaw(CodeType, "%s is not taken", h.Type)
	case l.MaxBytes > 0 && size > l.MaxBytes:
		return flaw(CodeTooLarge, "%d bytes, at most %d are taken", size, l.MaxBytes)
	case min(h.Width, h.Height) < l.MinSide:
		return l.small(h.Width, h.Height)
	case l.MaxSide > 0 && max(h.Width, h.Height) > l.MaxSide, l.MaxPixels > 0 && h.Width > l.MaxPixels/h.Height:
		return flaw(CodePixels, "%d × %d pixels, more than are taken", h.Width, h.Height)
	}
	return nil
}

func (l Limits) small(width, height int) error {
	return flaw(CodeTooSmall, "%d × %d pixels, at least %d a side are wanted", width, height, l.MinSide)
}

// decode gives the pixels, as they are stored; of an animation the first frame.
func (h *header) decode(raw []byte) (m image.Image, err error) {
	defer func() { // decoders of others on bytes of strangers: a fault there is the picture's end, and not the program's
		if p := recover(); p != nil {
			m, err = nil, flaw(CodeCorrupt, "it cannot be decoded")
		}
	}()
	switch h.Type {
	case JPEG:
		m, err = h.jpeg.decode(raw)
	case PNG:
		m, err = png.Decode(bytes.NewReader(raw))
	case GIF:
		m, err = gif.Decode(bytes.NewReader(raw))
	case WebP:
		m, err = webp.Decode(bytes.NewReader(raw))
	}
	if err != nil {
		return nil, undecodable(err)
	}
	h.Flat = flat(m)
	return m, nil
}

// undecodable is a decoder's error. A decoder that says what it cannot has no fault to find with the picture.
func undecodable(err error) error {
	switch err.(type) {
	case jpeg.UnsupportedError, png.UnsupportedError:
		return flaw(CodeType, "%v", err)
	}
	return flaw(CodeCorrupt, "it cannot be decoded: %v", err)
}

// flatRange is how far apart the channels of one color may be, of 255: JPEG does not keep them exactly.
const flatRange = 2

// flat says whether a picture has one color, by up to 256 × 256 of its points.
func flat(m image.Image) bool {
	points, ok := m.(image.RGBA64Image) // all that are decoded; At would make garbage of each point
	if !ok {
		return false
	}
	b := m.Bounds()
	low, high := [4]uint32{1 << 16, 1 << 16, 1 << 16, 1 << 16}, [4]uint32{}
	for y := b.Min.Y; y < b.Max.Y; y += 1 + b.Dy()/256 {
		for x := b.Min.X; x < b.Max.X; x += 1 + b.Dx()/256 {
			c := points.RGBA64At(x, y)
			for i, v := range [4]uint32{uint32(c.R), uint32(c.G), uint32(c.B), uint32(c.A)} {
				low[i], high[i] = min(low[i], v), max(high[i], v)
				if high[i]-low[i] > flatRange<<8 {
					return false
				}
			}
		}
	}
	return true
}
