package picture

import (
	"bytes"
	"image"
	"image/color/palette"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func written(t *testing.T, write func(io.Writer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestCost: no decoder takes more memory than is waited for. Not parallel: all that is taken meanwhile is counted.
func TestCost(t *testing.T) {
	const side = 500
	at := image.Rect(0, 0, side, side)
	var all [][]byte
	for _, m := range []image.Image{
		image.NewGray(at), image.NewGray16(at), image.NewRGBA(at), image.NewNRGBA(at), image.NewNRGBA64(at), image.NewPaletted(at, palette.Plan9),
	} {
		all = append(all, written(t, func(w io.Writer) error { return png.Encode(w, m) }))
	}
	for _, m := range []image.Image{image.NewGray(at), image.NewRGBA(at)} {
		all = append(all, written(t, func(w io.Writer) error { return jpeg.Encode(w, m, nil) }))
	}
	all = append(all, written(t, func(w io.Writer) error { return gif.Encode(w, image.NewPaletted(at, palette.Plan9), nil) }))
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = "../../../shared/data"
	}
	for _, name := range []string{
		"goimage_blue-purple-pink-large.no-filter.lossy.webp", "goimage_blue-purple-pink.lossless.webp", "goimage_tux.lossless.webp",
		"goimage_yellow_rose.lossy-with-alpha.webp", "go_video-001.progressive.jpeg",
	} {
		raw, err := os.ReadFile(filepath.Join(dir, "images", name))
		if err != nil {
			t.Logf("without what Go cannot write (set PAWL_TESTDATA): %v", err)
			continue
		}
		if sof := bytes.Index(raw, []byte{0xFF, sof2}); filepath.Ext(name) == ".jpeg" {
			copy(raw[sof+5:], []byte{side >> 8, side & 0xFF, side >> 8, side & 0xFF}) // larger than what follows: all is taken before that is seen
		}
		all = append(all, raw)
	}
	for _, raw := range all {
		h, err := read(raw)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = h.decode(raw)
		runtime.ReadMemStats(&after)
		taken, most := int64(after.TotalAlloc-before.TotalAlloc), int64(h.Width)*int64(h.Height)*h.cost()
		if taken > most+most/4+200_000 { // tables, and blocks at the edges
			t.Errorf("%s of %d × %d, %T: %d bytes, waited for %d", h.Type, h.Width, h.Height, h.model, taken, most)
		}
		t.Logf("%s, progressive %v: %.1f of %d bytes a pixel", h.Type, h.jpeg.progressive, float64(taken)/float64(h.Width*h.Height), h.cost())
	}
}
