package picture_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/image/draw"

	"pawl/internal/picture"
)

// noise is a picture that cannot be packed well.
func noise(w, h int) *image.RGBA {
	r := rand.New(rand.NewPCG(1, 2))
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range m.Pix {
		m.Pix[i] = byte(r.Uint32()) | byte(255*(i%4/3))
	}
	return m
}

// TestCase42ImageOverTheProvidersLimit: the limit is one of encoded bytes and of pixels, and what is over it is made to fit. What is
// under it stays as it is.
func TestCase42ImageOverTheProvidersLimit(t *testing.T) {
	room := picture.NewRoom(0)
	small, large := jpegOf(t, quarters(640, 480), 90), jpegOf(t, quarters(2001, 1500), 90)
	raw5, base5 := 5<<20, base64.StdEncoding.DecodedLen(5<<20) // five megabytes, and those of base64
	for _, mb := range []float64{3.7, 3.8, 4.9, 5.1, 10.2} {
		size := int(mb * (1 << 20))
		for _, most := range []int{raw5, base5} {
			raw := padded(t, small, size)
			out, info, err := room.Fit(t.Context(), raw, picture.Limits{Types: []string{picture.JPEG, picture.PNG}, MaxBytes: most, MinSide: 80, MaxSide: 2000})
			if err != nil || len(out) > most || info.Width != 640 || info.Height != 480 || bytes.Equal(out, raw) != (size <= most) {
				t.Errorf("%.1f MB in %d bytes: %d bytes, %+v, %v", mb, most, len(out), info, err)
			}
			if _, err := jpeg.Decode(bytes.NewReader(out)); err != nil {
				t.Errorf("%.1f MB: %v", mb, err)
			}
		}
	}
	if out, info, err := room.Fit(t.Context(), large, picture.Limits{MaxSide: 2000}); err != nil || info.Width != 2000 || bytes.Equal(out, large) {
		t.Errorf("2001 pixels a side: %+v, %v", info, err)
	}
	dense := pngOf(t, noise(1500, 1200)) // 7 MB that no other packing makes smaller
	out, info, err := room.Fit(t.Context(), dense, picture.Limits{MaxBytes: base5, Types: []string{picture.PNG}})
	if err != nil || len(out) > base5 || info.Width >= 1500 || info.Width < 900 {
		t.Errorf("%d bytes of noise: %d bytes, %+v, %v", len(dense), len(out), info, err)
	}
}

// TestScaleInBands: a picture that is scaled band by band has no seams: it is what it is when it is scaled at once.
func TestScaleInBands(t *testing.T) {
	t.Parallel()
	m := noise(301, 503)
	want := image.NewRGBA(image.Rect(0, 0, 150, 251))
	draw.CatmullRom.Scale(want, want.Bounds(), m, m.Bounds(), draw.Src, nil)
	out, _, err := picture.NewRoom(0).Fit(t.Context(), pngOf(t, m), picture.Limits{MaxSide: 251, Types: []string{picture.PNG}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(bytes.NewReader(out))
	if err != nil || got.Bounds() != want.Bounds() {
		t.Fatal(got.Bounds(), err)
	}
	worst := 0
	for y := range 251 {
		for x := range 150 {
			c := color.RGBAModel.Convert(got.At(x, y)).(color.RGBA)
			w := want.RGBAAt(x, y)
			for _, d := range []int{int(c.R) - int(w.R), int(c.G) - int(w.G), int(c.B) - int(w.B)} {
				worst = max(worst, d, -d)
			}
		}
	}
	if worst > 10 { // what is over white or under black between the two passes is cut
		t.Errorf("a channel is off by %d of 255", worst)
	}
	t.Logf("no channel is off by more than %d of 255", worst)
}

// heap is how much memory lives objects and garbage have.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// peak is the most memory that something takes beside what there was.
func peak(do func()) uint64 {
	runtime.GC()
	before, most := heap(), uint64(0)
	ctx, stop := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() {
		for ctx.Err() == nil {
			most = max(most, heap())
			time.Sleep(time.Millisecond) // that often it is looked at
		}
	})
	do()
	stop()
	watch.Wait()
	return most - min(before, most)
}

// TestCase44PixelFlood: fifty at once hold the memory of their room, and bombs none at all.
func TestCase44PixelFlood(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // little garbage, so that what lives is what is measured
	const at = 50
	all := func(room *picture.Room, raw []byte, want string) uint64 {
		return peak(func() {
			var checks sync.WaitGroup
			for range at {
				checks.Go(func() {
					if _, err := room.Check(t.Context(), raw, picture.Limits{}); code(err) != want || want == "" && err != nil {
						t.Errorf("%v, want %q", err, want)
					}
				})
			}
			checks.Wait()
		})
	}
	for name, want := range map[string]string{
		"gen_jpeg_header_says_64250x64250.jpg": picture.CodePixels, "gen_bomb_30000x30000_1bit.png": picture.CodePixels, "gen_gif_1200_frames_500x500.gif": "",
	} {
		if got := all(picture.NewRoom(0), data(t, "images/"+name), want); got > 100<<20 { // each has less than 1 MB, and GIF's frames would have 300
			t.Errorf("%d at once of %s: %d MB", at, name, got>>20)
		} else {
			t.Logf("%d at once of %s: %.1f MB", at, name, float64(got)/(1<<20))
		}
	}
	const side, room = 2000, 48 << 20 // 16 MB each: three at once, where fifty would have 800
	got := all(picture.NewRoom(room), pngOf(t, quarters(side, side)), "")
	if got > 3*room { // what lives, and what is not collected yet
		t.Errorf("%d at once of 4 megapixels in %d MB: %d MB", at, room>>20, got>>20)
	}
	t.Logf("%d at once of 4 megapixels in a room of %d MB: %.1f MB", at, room>>20, float64(got)/(1<<20))

	const megapixels, fits = 4, 4 // one takes fifteen bytes a pixel when it is made a little smaller and turned
	turned := behindStart(jpegOf(t, quarters(side, side), 90), segment(0xE1, append([]byte("Exif\x00\x00"), tiff(binary.BigEndian, 6)...)))
	narrow := picture.NewRoom(1)
	got = peak(func() {
		var all sync.WaitGroup
		for range fits {
			all.Go(func() {
				if _, info, err := narrow.Fit(t.Context(), turned, picture.Limits{MaxSide: 1900}); err != nil || info.Width != 1900 {
					t.Errorf("%+v, %v", info, err)
				}
			})
		}
		all.Wait()
	})
	if got > 2*15*megapixels*1_000_000 {
		t.Errorf("%d at once of %d megapixels made to fit, one after the other: %d MB", fits, megapixels, got>>20)
	}
	t.Logf("%d at once of %d megapixels made to fit, one after the other: %.1f MB", fits, megapixels, float64(got)/(1<<20))
}

// TestRoom: who waits for room can stop waiting, and what is larger than the room has it for itself.
func TestRoom(t *testing.T) {
	t.Parallel()
	raw := jpegOf(t, quarters(64, 64), 90)
	room := picture.NewRoom(1)
	for range 3 {
		if _, err := room.Check(t.Context(), raw, picture.Limits{}); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := room.Check(ctx, raw, picture.Limits{}); err != context.Canceled {
		t.Error(err)
	}
	if _, _, err := room.Fit(ctx, raw, picture.Limits{}); err != context.Canceled {
		t.Error(err)
	}
}

// TestCase46OddJPEGs: press photos in four colors, inverted or not, come out as people see them, and what was cut says so.
func TestCase46OddJPEGs(t *testing.T) {
	adobe := func(transform byte) []byte {
		return segment(0xEE, []byte{'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, transform})
	}
	room := picture.NewRoom(0)
	for _, c := range []struct {
		name   string
		claim  []byte
		values [4]byte
		want   color.RGBA
	}{
		{"Adobe's, inverted: cyan", adobe(0), [4]byte{0, 255, 255, 255}, color.RGBA{0, 255, 255, 255}},
		{"Adobe's, inverted: red, darker", adobe(0), [4]byte{255, 0, 0, 128}, color.RGBA{128, 0, 0, 255}},
		{"claimed by nobody: cyan", nil, [4]byte{255, 0, 0, 0}, color.RGBA{0, 255, 255, 255}},
		{"claimed by nobody: red, darker", nil, [4]byte{0, 255, 255, 127}, color.RGBA{128, 0, 0, 255}},
		{"YCCK: grey", adobe(2), [4]byte{128, 128, 128, 255}, color.RGBA{128, 128, 128, 255}},
	} {
		raw := fourColors(t, c.claim, c.values)
		info, err := room.Check(t.Context(), raw, picture.Limits{})
		if err != nil || info.Partial || info.Width != 64 {
			t.Errorf("%s: %+v, %v", c.name, info, err)
			continue
		}
		out, info, err := room.Fit(t.Context(), raw, picture.Limits{Types: []string{picture.JPEG}})
		if err != nil || info.Type != picture.JPEG {
			t.Errorf("%s: %+v, %v", c.name, info, err)
			continue
		}
		m, err := jpeg.Decode(bytes.NewReader(out))
		if err != nil || m.ColorModel() != color.YCbCrModel || !near(m.At(32, 32), c.want) {
			t.Errorf("%s: %v, want %v, %v", c.name, m.At(32, 32), c.want, err)
		}
	}
	for name, partial := range map[string]bool{
		"221212.jpeg": false, "gray": false, "progressive.jpeg": false, "progressive.truncated.jpeg": true,
	} {
		number := "001."
		if name == "gray" {
			number, name = "005.", "gray.jpeg"
		}
		raw := data(t, "images/go_video-"+number+name)
		info, err := room.Check(t.Context(), raw, picture.Limits{})
		if err != nil || info.Partial != partial {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
		cut := raw[:len(raw)-2] // only its end
		if info, err := room.Check(t.Context(), cut, picture.Limits{}); err != nil || !info.Partial {
			t.Errorf("%s without its end: %+v, %v", name, info, err)
		}
		out, _, err := room.Fit(t.Context(), cut, picture.Limits{})
		if again, bad := room.Check(t.Context(), out, picture.Limits{}); err != nil || bad != nil || again.Partial {
			t.Errorf("%s made whole: %+v, %v, %v", name, again, err, bad)
		}
	}
}

// TestPasses: a JPEG of a few bytes in thousands of passes would take the time of thousands.
func TestPasses(t *testing.T) {
	t.Parallel()
	raw := jpegOf(t, quarters(64, 64), 90)
	scan := segment(0xDA, []byte{1, 1, 0, 0, 63, 0})
	flood := behindStart(raw, []byte(strings.Repeat(string(scan), 200)))
	if _, err := picture.NewRoom(0).Check(t.Context(), flood, picture.Limits{}); code(err) != picture.CodeCorrupt || !strings.Contains(err.Error(), "passes") {
		t.Error(err)
	}
}
