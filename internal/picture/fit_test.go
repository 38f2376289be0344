package picture_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"
	"testing"

	"golang.org/x/image/draw"

	"pawl/internal/picture"
)

// near says whether two colors look alike.
func near(a, b color.Color) bool {
	r1, g1, b1, _ := a.RGBA()
	r2, g2, b2, _ := b.RGBA()
	for _, d := range []int{int(r1) - int(r2), int(g1) - int(g2), int(b1) - int(b2)} {
		if max(d, -d) > 24<<8 {
			return false
		}
	}
	return true
}

// alike compares two pictures in the middle of their quarters.
func alike(t *testing.T, got, want image.Image) {
	t.Helper()
	if got.Bounds().Size() != want.Bounds().Size() {
		t.Errorf("%v, want %v", got.Bounds(), want.Bounds())
		return
	}
	for _, at := range [][2]int{{1, 1}, {3, 1}, {1, 3}, {3, 3}} {
		x, y := at[0]*got.Bounds().Dx()/4, at[1]*got.Bounds().Dy()/4
		if !near(got.At(x, y), want.At(x, y)) {
			t.Errorf("at %d,%d: %v, want %v", x, y, got.At(x, y), want.At(x, y))
		}
	}
}

// ways are the eight orientations: which side of what is seen the first row and the first column of what is stored are (CIPA DC-008,
// tag 274).
var ways = []struct{ row, column string }{
	{"top", "left"}, {"top", "right"}, {"bottom", "right"}, {"bottom", "left"}, {"left", "top"}, {"right", "top"}, {"right", "bottom"}, {"left", "bottom"},
}

// stored is how a camera that was held one way keeps what it sees.
func stored(seen image.Image, row, column string) *image.RGBA {
	w, h := seen.Bounds().Dx(), seen.Bounds().Dy()
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	if row == "left" || row == "right" {
		m = image.NewRGBA(image.Rect(0, 0, h, w))
	}
	for r := range m.Bounds().Dy() {
		for c := range m.Bounds().Dx() {
			x, y := 0, 0
			for side, n := range map[string]int{row: r, column: c} {
				switch side {
				case "top":
					y = n
				case "bottom":
					y = h - 1 - n
				case "left":
					x = n
				case "right":
					x = w - 1 - n
				}
			}
			m.Set(c, r, seen.At(x, y))
		}
	}
	return m
}

func chunk(name string, content []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(content)))
	b = append(append(b, name...), content...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// TestOrientation: however the camera was held, what comes out is upright, and is measured so.
func TestOrientation(t *testing.T) {
	t.Parallel()
	seen := quarters(96, 64)
	room := picture.NewRoom(0)
	for i, way := range ways {
		m := stored(seen, way.row, way.column)
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			exif := tiff(order, i+1)
			p := pngOf(t, m)
			for kind, raw := range map[string][]byte{
				picture.JPEG: behindStart(jpegOf(t, m, 95), segment(0xE1, append([]byte("Exif\x00\x00"), exif...))),
				picture.PNG:  slices.Concat(p[:33], chunk("eXIf", exif), p[33:]),
			} {
				info, err := room.Check(t.Context(), raw, picture.Limits{})
				if err != nil || info.Type != kind || info.Turn != i+1 || info.Width != 96 || info.Height != 64 {
					t.Fatalf("%s %v: %+v, %v", kind, way, info, err)
				}
				out, info, err := room.Fit(t.Context(), raw, picture.Limits{})
				if err != nil || info.Turn != 1 || info.Type != kind || bytes.Equal(out, raw) != (i == 0) {
					t.Fatalf("%s %v: %+v, %v", kind, way, info, err)
				}
				got, _, err := image.Decode(bytes.NewReader(out))
				if err != nil {
					t.Fatal(err)
				}
				alike(t, got, seen)
			}
		}
	}
}

// TestOrientationOfWebP: the chunk EXIF counts, also behind the mark that only JPEG wants.
func TestOrientationOfWebP(t *testing.T) {
	t.Parallel()
	raw := data(t, "images/goimage_video-001.lossy.webp")
	for _, mark := range []string{"", "Exif\x00\x00"} {
		exif := append([]byte(mark), tiff(binary.BigEndian, 6)...)
		body := slices.Concat(raw[12:], []byte("EXIF"), binary.LittleEndian.AppendUint32(nil, uint32(len(exif))), exif)
		turned := slices.Concat(raw[:4], binary.LittleEndian.AppendUint32(nil, uint32(len(body)+4)), raw[8:12], body)
		info, err := picture.NewRoom(0).Check(t.Context(), turned, picture.Limits{})
		if err != nil || info.Turn != 6 || info.Width != 103 || info.Height != 150 {
			t.Errorf("%+v, %v", info, err)
		}
	}
}

// TestFit: what is taken stays as it is, to the byte, and all else becomes what is taken.
func TestFit(t *testing.T) {
	t.Parallel()
	room := picture.NewRoom(0)
	big := quarters(600, 400)
	var anim bytes.Buffer
	frame := image.NewPaletted(image.Rect(150, 0, 300, 200), color.Palette{color.White, color.RGBA{220, 30, 30, 255}})
	for i := range frame.Pix {
		frame.Pix[i] = 1
	}
	if err := gif.EncodeAll(&anim, &gif.GIF{Image: []*image.Paletted{frame, frame}, Delay: []int{1, 1}, Config: image.Config{Width: 300, Height: 200}}); err != nil {
		t.Fatal(err)
	}
	clear := image.NewNRGBA(image.Rect(0, 0, 100, 100))
	for _, c := range []struct {
		name   string
		raw    []byte
		limits picture.Limits
		kind   string // empty: untouched
		w, h   int
		code   string
	}{
		{name: "untouched", raw: jpegOf(t, big, 90), limits: picture.Limits{Types: []string{picture.JPEG}, MaxSide: 600, MaxPixels: 240_000, MinSide: 400}},
		{name: "side", raw: jpegOf(t, big, 90), limits: picture.Limits{MaxSide: 599}, kind: picture.JPEG, w: 599, h: 399},
		{name: "pixels", raw: jpegOf(t, big, 90), limits: picture.Limits{MaxPixels: 60_000}, kind: picture.JPEG, w: 300, h: 200},
		{name: "type", raw: pngOf(t, big), limits: picture.Limits{Types: []string{picture.JPEG}}, kind: picture.JPEG, w: 600, h: 400},
		{name: "no loss", raw: pngOf(t, big), limits: picture.Limits{MaxSide: 300}, kind: picture.PNG, w: 300, h: 200},
		{name: "JPEG as PNG", raw: jpegOf(t, big, 90), limits: picture.Limits{Types: []string{picture.PNG}}, kind: picture.PNG, w: 600, h: 400},
		{name: "a frame on its screen", raw: anim.Bytes(), limits: picture.Limits{Types: []string{picture.JPEG}}, kind: picture.JPEG, w: 300, h: 200},
		{name: "GIF that is taken", raw: anim.Bytes()},
		{name: "too small", raw: jpegOf(t, big, 90), limits: picture.Limits{MinSide: 401}, code: picture.CodeTooSmall},
		{name: "too small when it fits", raw: jpegOf(t, big, 90), limits: picture.Limits{MinSide: 400, MaxSide: 300}, code: picture.CodeTooLarge},
		{name: "no bytes to fit in", raw: jpegOf(t, big, 90), limits: picture.Limits{MaxBytes: 10}, code: picture.CodeTooLarge},
		{name: "a type that nobody writes", raw: jpegOf(t, big, 90), limits: picture.Limits{Types: []string{picture.WebP}}, code: picture.CodeType},
		{name: "transparent on white", raw: pngOf(t, clear), limits: picture.Limits{Types: []string{picture.JPEG}}, kind: picture.JPEG, w: 100, h: 100},
	} {
		out, info, err := room.Fit(t.Context(), c.raw, c.limits)
		switch {
		case c.code != "" || err != nil:
			if code(err) != c.code || out != nil {
				t.Errorf("%s: %v (%s), want %q", c.name, err, code(err), c.code)
			}
			continue
		case c.kind == "":
			if !bytes.Equal(out, c.raw) {
				t.Errorf("%s: it was touched", c.name)
			}
			continue
		case info.Type != c.kind || info.Width != c.w || info.Height != c.h:
			t.Errorf("%s: %+v", c.name, info)
		}
		decode := jpeg.Decode
		if c.kind == picture.PNG {
			decode = png.Decode
		}
		m, err := decode(bytes.NewReader(out))
		if err != nil || m.Bounds().Dx() != c.w || m.Bounds().Dy() != c.h {
			t.Errorf("%s: %v, %v", c.name, m.Bounds(), err)
			continue
		}
		switch c.name {
		case "transparent on white":
			if !near(m.At(50, 50), color.White) {
				t.Errorf("%s: %v", c.name, m.At(50, 50))
			}
		case "a frame on its screen":
			if !near(m.At(75, 100), color.White) || !near(m.At(225, 100), color.RGBA{220, 30, 30, 255}) {
				t.Errorf("%s: %v beside %v", c.name, m.At(75, 100), m.At(225, 100))
			}
		default:
			want := image.NewRGBA(image.Rect(0, 0, c.w, c.h))
			draw.CatmullRom.Scale(want, want.Bounds(), big, big.Bounds(), draw.Src, nil)
			alike(t, m, want)
		}
	}
}
