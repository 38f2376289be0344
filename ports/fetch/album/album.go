// Package album fetches the photographs of an album: as pictures without bytes, for who is in them is known, or with the failure that
// the file says.
//
// It may never go out, or invent a picture.
//
// Start reading at New.
package album

import (
	"context"

	"pawl"
	"pawl/internal/album"
	"pawl/ports/fetch"
)

type fetcher struct{ album *album.Album }

// New is the fetcher of an album.
func New(a *album.Album) fetch.Fetcher { return fetcher{a} }

// pictures are the types of what can be fetched.
var pictures = map[album.Outcome]string{album.OK: "image/jpeg", album.WebP: "image/webp"}

// failures are what the fetcher that goes out says of such an address.
var failures = map[album.Outcome]fetch.Failure{
	album.NotFound:     {Code: pawl.CodeNotFound, Status: 404, Text: "nothing is there"},
	album.Forbidden:    {Code: pawl.CodeForbidden, Status: 403, Text: "it is not given"},
	album.Page:         {Code: fetch.CodePage, Text: "a page instead of a picture"},
	album.Timeout:      {Code: pawl.CodeTimeout, Text: "it took too long"},
	album.RedirectLoop: {Code: fetch.CodeRedirects, Text: "it leads from one address to the next"},
	album.TooLarge:     {Code: fetch.CodeTooLarge, Text: "it is larger than what is taken"},
	album.Corrupt:      {Code: fetch.CodeCorrupt, Text: "it cannot be decoded"},
}

func (f fetcher) Image(ctx context.Context, url string) (fetch.Image, error) {
	switch err := ctx.Err(); err {
	case nil:
	case context.DeadlineExceeded:
		return fetch.Image{}, fail(url, fetch.Failure{Code: pawl.CodeTimeout, Text: "the time of the call is up"})
	default:
		return fetch.Image{}, err
	}
	photo, ok := f.album.At(url)
	if !ok {
		return fetch.Image{}, fail(url, fetch.Failure{Code: fetch.CodeBlocked, Text: "it is none of this album"})
	}
	if failure, ok := failures[photo.Outcome]; ok {
		return fetch.Image{}, fail(url, failure)
	}
	return fetch.Image{URL: url, Type: pictures[photo.Outcome]}, nil
}

func fail(url string, f fetch.Failure) error {
	f.URL, f.After = url, -1
	return f.Fault()
}
