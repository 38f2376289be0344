// Package album knows who is in the photographs of an album: what the file says a recognizer has seen, or who is documented.
//
// It may never look at bytes, or at anything that stands at another address than an album's.
//
// Start reading at New.
package album

import (
	"cmp"
	"context"
	"slices"

	"pawl/internal/album"
	"pawl/ports/faces"
)

type recognizer struct{ album *album.Album }

// New is a recognizer of the photographs of an album, by their addresses.
func New(a *album.Album) faces.Recognizer { return recognizer{a} }

func (recognizer) Name() string { return "album" }

func (r recognizer) Recognize(ctx context.Context, p faces.Picture) (faces.Recognition, error) {
	if err := ctx.Err(); err != nil {
		return faces.Recognition{}, faces.FaultOf(r.Name(), err)
	}
	photo, ok := r.album.At(p.URL)
	if !ok {
		return faces.Recognition{}, faces.Failure{
			Recognizer: r.Name(), Code: faces.CodePicture, Text: "the picture is none of this album", After: -1,
		}.Fault()
	}
	seen := faces.Recognition{Faces: make([]faces.Face, len(photo.Faces)), Unknown: photo.Unknown, Documented: photo.Documented}
	for i, f := range photo.Faces {
		seen.Faces[i] = faces.Face{Name: f.Name, Confidence: f.Confidence}
	}
	slices.SortStableFunc(seen.Faces, func(a, b faces.Face) int { return cmp.Compare(b.Confidence, a.Confidence) })
	return seen, nil
}
