package picture

import (
	"context"
	"image/color"

	"golang.org/x/sync/semaphore"
)

// Room is where pictures are decoded: so many at once as have room, and the others wait. One that is larger than the room has it
// for itself. Safe for concurrent use.
type Room struct {
	size int64
	free *semaphore.Weighted
}

// DefaultRoom is the memory of a Room that is not told another: what the largest picture takes that is common.
const DefaultRoom = 512 << 20

// NewRoom makes a room of so many bytes; 0: DefaultRoom.
func NewRoom(bytes int64) *Room {
	if bytes <= 0 {
		bytes = DefaultRoom
	}
	return &Room{size: bytes, free: semaphore.NewWeighted(bytes)}
}

// enter waits for the memory that a picture takes, by bytes a pixel. Its error is the context's.
func (r *Room) enter(ctx context.Context, h header, each int64) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	need := min(int64(h.bounds.Dx())*int64(h.bounds.Dy())*each, r.size)
	if err := r.free.Acquire(ctx, need); err != nil {
		return nil, err
	}
	return func() { r.free.Release(need) }, nil
}

// Check says whether bytes are a picture that can be decoded and keeps its limits, and what is known of it: by its header first, and
// then by decoding it. What is wrong with it is an *Error.
func (r *Room) Check(ctx context.Context, raw []byte, l Limits) (Info, error) {
	h, err := read(raw)
	if err == nil {
		err = l.flaw(h, len(raw))
	}
	if err != nil {
		return Info{}, err
	}
	leave, err := r.enter(ctx, h, h.cost())
	if err != nil {
		return Info{}, err
	}
	defer leave()
	if _, err := h.decode(raw); err != nil {
		return Info{}, err
	}
	return h.Info, nil
}

// cost is how many bytes a pixel takes while it is decoded, at most.
func (h header) cost() int64 {
	switch h.Type {
	case JPEG:
		each := int64(h.jpeg.parts)
		if h.jpeg.progressive {
			each += 4 * int64(h.jpeg.parts) // coefficients
		}
		if h.model == color.CMYKModel || h.model == color.RGBAModel {
			each += 4 // put together from its parts
		}
		return max(each, 1)
	case PNG:
		each := int64(4)
		switch h.model {
		case color.GrayModel:
			each = 1
		case color.Gray16Model:
			each = 2
		case color.RGBA64Model, color.NRGBA64Model:
			each = 8
		}
		if h.laced {
			each *= 2
		}
		return each
	case WebP:
		return 10 // pixels, and what they are made from
	}
	return 1
}
