// Package album is photographs and who is in them: the album that is built in, and those of users.
//
// It may never hold a picture, guess who is in one, or do I/O beyond reading what it is handed. Titles are our own words, and a link
// stands only where it was seen to lead to the photograph.
//
// Start reading at Photo, then Embedded and Load; load.go says what a row means, rows.go how files hold them.
package album

import (
	"embed"
	"strconv"
	"strings"
)

// Photo is one photograph.
type Photo struct {
	ID         string
	Title      string   // empty: it has none
	Year       int      // 0: not known
	Place      string   // or the occasion
	People     []string // who is in it, as its caption says
	Collection string   // where it is kept, or what it belongs to
	Link       string   // a page that shows it; empty: none is known
	Outcome    Outcome  // what fetching it gives

	Faces      []Face // whom a recognizer sees in it
	Unknown    int    // faces that it does not know
	Documented bool   // no recognizer has looked: Faces are the People, with Certain
}

// Face is a person whom a recognizer sees.
type Face struct {
	Name       string
	Confidence float64 // 0 to 100
}

// Certain is the confidence of what is documented.
const Certain = 100

// Outcome is what fetching a photograph gives.
type Outcome string

// The outcomes.
const (
	OK           Outcome = "ok"
	WebP         Outcome = "webp" // a picture, in a format that not every recognizer takes
	NotFound     Outcome = "http_404"
	Forbidden    Outcome = "http_403_html"
	Page         Outcome = "html_instead_of_image" // with status 200
	Timeout      Outcome = "timeout"
	RedirectLoop Outcome = "redirect_loop"
	TooLarge     Outcome = "too_large"
	Corrupt      Outcome = "corrupt"
)

var outcomes = []Outcome{OK, WebP, NotFound, Forbidden, Page, Timeout, RedirectLoop, TooLarge, Corrupt}

const scheme = "album:"

// URL is the address of a photograph in its album.
func (p Photo) URL() string { return scheme + p.ID }

// Caption is what people are told about a photograph: its title, place and year, or else who is in it.
func (p Photo) Caption() string {
	if p.Title == "" {
		return strings.Join(p.People, ", ")
	}
	parts := []string{p.Title}
	if p.Place != "" {
		parts = append(parts, p.Place)
	}
	if p.Year != 0 {
		parts = append(parts, strconv.Itoa(p.Year))
	}
	return strings.Join(parts, ", ")
}

// Album is a set of photographs that no longer changes. What it hands out is the reader's to look at, not to change.
type Album struct {
	name   string
	photos []Photo
	places map[string]int // in photos, by id
}

// Name is what it was called when it was loaded.
func (a *Album) Name() string { return a.name }

// Photos are all of them, in the order of the file.
func (a *Album) Photos() []Photo { return a.photos }

// At is the photograph at an address.
func (a *Album) At(url string) (Photo, bool) {
	id, ok := strings.CutPrefix(url, scheme)
	i, known := a.places[id]
	if !ok || !known {
		return Photo{}, false
	}
	return a.photos[i], true
}

//go:embed photos.csv
var files embed.FS

// Embedded is the album that is built in: famous photographs, and who is documented as being in them. The facts were collected, and
// every word written, for this program.
func Embedded() *Album {
	file, err := files.Open("photos.csv")
	if err != nil {
		panic("album: " + err.Error()) // it is in the binary
	}
	a, err := Load("embedded", file)
	if err != nil {
		panic("album: " + err.Error()) // a test loads it: a release cannot get here
	}
	return a
}
