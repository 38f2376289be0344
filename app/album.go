package app

import (
	"os"

	"pawl/internal/album"
	"pawl/ports/faces"
	facesalbum "pawl/ports/faces/album"
	"pawl/ports/fetch"
	fetchalbum "pawl/ports/fetch/album"
	"pawl/ports/imagesearch"
	searchalbum "pawl/ports/imagesearch/album"
)

// Album is one album in the place of the outside world: it finds its photographs, gives them, and knows who is in them. Its three
// parts go together, for what another source finds is not in it.
type Album struct {
	Searcher   imagesearch.Searcher
	Fetcher    fetch.Fetcher
	Recognizer faces.Recognizer
	Photos     *album.Album
}

// Album is that of a file, or the one that is built in where there is none.
func (o Opening) Album(file string) (*Album, error) {
	if file == "" {
		return newAlbum(album.Embedded()), nil
	}
	file = absolute(file)
	f, err := os.Open(file)
	if err != nil {
		return nil, invalid("album: %v", err)
	}
	defer f.Close()
	a, err := album.Load(file, f)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return newAlbum(a), nil
}

func newAlbum(a *album.Album) *Album {
	return &Album{Searcher: searchalbum.New(a), Fetcher: fetchalbum.New(a), Recognizer: facesalbum.New(a), Photos: a}
}
