package picture

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"slices"

	"golang.org/x/image/draw"
)

const (
	quality   = 90 // of a JPEG that is written
	costOfFit = 12 // bytes a pixel beside decoding: half scaled, scaled, turned
	band      = 64 // lines that are scaled at once
)

// Fit gives bytes that keep the limits: those it was given where they do, and otherwise the first picture in them upright, in RGB on
// white, written as JPEG or PNG, and as much smaller as is needed. What cannot be made to fit is an *Error.
func (r *Room) Fit(ctx context.Context, raw []byte, l Limits) ([]byte, Info, error) {
	h, err := read(raw)
	if err != nil {
		return nil, Info{}, err
	}
	if min(h.Width, h.Height) < l.MinSide {
		return nil, Info{}, l.small(h.Width, h.Height)
	}
	leave, err := r.enter(ctx, h, h.cost()+costOfFit)
	if err != nil {
		return nil, Info{}, err
	}
	defer leave()
	m, err := h.decode(raw)
	if err != nil {
		return nil, Info{}, err
	}
	if l.flaw(h, len(raw)) == nil && h.Turn == 1 && !h.Partial && h.model != color.CMYKModel {
		return raw, h.Info, nil
	}
	if m.Bounds() != h.bounds { // a frame that does not fill the screen
		screen := image.NewRGBA(h.bounds)
		draw.Draw(screen, m.Bounds(), m, m.Bounds().Min, draw.Src)
		m = screen
	}
	return l.rewrite(ctx, h.Info, m)
}

// rewrite writes a picture smaller until it fits.
func (l Limits) rewrite(ctx context.Context, info Info, m image.Image) ([]byte, Info, error) {
	w, h := float64(m.Bounds().Dx()), float64(m.Bounds().Dy())
	by := 1.0
	if l.MaxSide > 0 {
		by = min(by, float64(l.MaxSide)/max(w, h))
	}
	if l.MaxPixels > 0 {
		by = min(by, math.Sqrt(float64(l.MaxPixels)/(w*h)))
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, Info{}, err
		}
		small := scale(m, int(max(w*by, 1)), int(max(h*by, 1)))
		if b := small.Bounds(); min(b.Dx(), b.Dy()) < l.MinSide {
			return nil, Info{}, flaw(CodeTooLarge, "it fits only with less than %d pixels a side", l.MinSide)
		}
		small = upright(small, info.Turn)
		least := 0
		for _, as := range l.writers(info.Type) {
			raw, err := as.write(small)
			if err != nil {
				return nil, Info{}, err
			}
			if l.MaxBytes <= 0 || len(raw) <= l.MaxBytes {
				b := small.Bounds()
				return raw, Info{Type: as.kind, Width: b.Dx(), Height: b.Dy(), Turn: 1, Flat: info.Flat}, nil
			}
			least = len(raw)
		}
		switch {
		case least == 0:
			return nil, Info{}, flaw(CodeType, "%s cannot be made one of %q", info.Type, l.Types)
		case small.Bounds().Dx() == 1 && small.Bounds().Dy() == 1:
			return nil, Info{}, flaw(CodeTooLarge, "no picture has %d bytes", l.MaxBytes)
		}
		by *= min(0.95*math.Sqrt(float64(l.MaxBytes)/float64(least)), 0.9)
	}
}

type writer struct {
	kind  string
	write func(image.Image) ([]byte, error)
}

// writers are the types that a picture may be written as, the best first: what has no loss is kept so where it can be.
func (l Limits) writers(from string) (all []writer) {
	if from == PNG || from == GIF || !l.takes(JPEG) {
		all = append(all, writer{PNG, writePNG})
	}
	all = append(all, writer{JPEG, writeJPEG})
	return slices.DeleteFunc(all, func(w writer) bool { return !l.takes(w.kind) })
}

func (l Limits) takes(kind string) bool { return l.Types == nil || slices.Contains(l.Types, kind) }

func writePNG(m image.Image) ([]byte, error) {
	var out bytes.Buffer
	err := png.Encode(&out, m)
	return out.Bytes(), err
}

func writeJPEG(m image.Image) ([]byte, error) {
	var out bytes.Buffer
	err := jpeg.Encode(&out, m, &jpeg.Options{Quality: quality})
	return out.Bytes(), err
}

// scale gives a picture of that size, on white. It goes over the picture once along and once across, a band at a time: at once,
// draw would take 32 bytes a pixel.
func scale(m image.Image, w, h int) *image.RGBA {
	from := m.Bounds()
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(out, out.Bounds(), image.White, image.Point{}, draw.Src)
	if w == from.Dx() && h == from.Dy() {
		draw.Draw(out, out.Bounds(), m, from.Min, draw.Over)
		return out
	}
	half := image.NewRGBA(image.Rect(0, 0, w, from.Dy()))
	along := draw.CatmullRom.NewScaler(w, band, from.Dx(), band)
	for y := 0; y < from.Dy(); y += band {
		to := min(y+band, from.Dy())
		along.Scale(half, image.Rect(0, y, w, to), m, image.Rect(from.Min.X, from.Min.Y+y, from.Max.X, from.Min.Y+to), draw.Src, nil)
	}
	across := draw.CatmullRom.NewScaler(band, h, band, from.Dy())
	for x := 0; x < w; x += band {
		to := min(x+band, w)
		across.Scale(out, image.Rect(x, 0, to, h), half, image.Rect(x, 0, to, from.Dy()), draw.Over, nil)
	}
	return out
}

// upright turns and mirrors a picture as its orientation asks.
func upright(m *image.RGBA, turn int) *image.RGBA {
	if turn <= 1 {
		return m
	}
	w, h := m.Bounds().Dx(), m.Bounds().Dy()
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	if turn > 4 {
		out = image.NewRGBA(image.Rect(0, 0, h, w))
	}
	for y := range h {
		for x := range w {
			tx, ty := x, y
			switch turn {
			case 2:
				tx = w - 1 - x
			case 3:
				tx, ty = w-1-x, h-1-y
			case 4:
				ty = h - 1 - y
			case 5:
				tx, ty = y, x
			case 6:
				tx, ty = h-1-y, x
			case 7:
				tx, ty = h-1-y, w-1-x
			case 8:
				tx, ty = y, w-1-x
			}
			copy(out.Pix[out.PixOffset(tx, ty):][:4], m.Pix[m.PixOffset(x, y):][:4])
		}
	}
	return out
}
