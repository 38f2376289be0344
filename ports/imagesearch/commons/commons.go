// Package commons is the search of Wikimedia Commons: pictures under free licenses, without a key.
//
// It may never ask without saying who asks and whom to write to, ask twice at once, ask before the time that a Retry-After set is
// over, retry, or share a type with the server of its tests.
//
// Start reading at New; refusal.go reads what is refused. The manners are those of https://www.mediawiki.org/wiki/API:Etiquette and
// https://www.mediawiki.org/wiki/Wikimedia_APIs/Access_policy.
package commons

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/imagesearch"
)

// Config is who asks. Only Contact is needed.
type Config struct {
	URL     string // empty: Commons'
	Contact string // whom its people can write to: a mail address or a page
	Version string // of this program

	First, Silence time.Duration // until the first byte of a response, and between its bytes; 0: 30 s
	HTTP           *http.Client
	Now            func() time.Time // nil: this machine's clock
}

const (
	name    = "commons"
	ownURL  = "https://commons.wikimedia.org"
	apiPath = "/w/api.php"
	timeout = 30 * time.Second

	// onlyPhotos leaves out what is no picture of pixels. With it a query keeps within the 300 characters that are searched.
	onlyPhotos = "filetype:bitmap "
	// width is one of those in which pictures are kept ready, https://www.mediawiki.org/wiki/Manual:$wgThumbnailSteps; a JPEG of it is
	// far below the 5 MB that a recognizer takes.
	width = "1280"
	// maxLag asks to be turned away while the databases are that many seconds behind.
	maxLag = "5"
)

type searcher struct {
	rest  *rest.Client
	unset bool
	now   func() time.Time
	turn  chan time.Time // whoever has taken what is in it asks, and not before that time
}

// New is a searcher. Nothing is asked for yet.
func New(c Config) imagesearch.Searcher {
	s := &searcher{unset: c.Contact == "", now: c.Now, turn: make(chan time.Time, 1)}
	if s.now == nil {
		s.now = time.Now
	}
	s.rest = &rest.Client{
		URL: cmp.Or(c.URL, ownURL), HTTP: c.HTTP, First: cmp.Or(c.First, timeout), Silence: cmp.Or(c.Silence, timeout), Now: c.Now,
		Header:  map[string]string{"User-Agent": fmt.Sprintf("pawl/%s (%s)", cmp.Or(c.Version, "dev"), c.Contact)},
		Refuses: refuses,
	}
	s.turn <- time.Time{}
	return s
}

func (s *searcher) Name() string { return name }

func (s *searcher) Search(ctx context.Context, q imagesearch.Query) ([]imagesearch.Result, error) {
	if err := q.Check(name); err != nil {
		return nil, err
	}
	if s.unset {
		return nil, imagesearch.Unset(name, "it needs a contact: a mail address or a page, for Wikimedia's people")
	}
	raw, err := s.ask(ctx, url.Values{
		"action": {"query"}, "format": {"json"}, "formatversion": {"2"}, "maxlag": {maxLag},
		"generator": {"search"}, "gsrsearch": {onlyPhotos + q.Text}, "gsrnamespace": {"6"}, "gsrlimit": {strconv.Itoa(q.Count)},
		"prop": {"imageinfo"}, "iiprop": {"url|extmetadata"}, "iiextmetadatafilter": {"ObjectName"}, "iiurlwidth": {width},
	})
	if err != nil {
		return nil, err
	}
	return results(raw, q.Count)
}

// ask makes a request when its turn comes, or says how long none will be made.
func (s *searcher) ask(ctx context.Context, query url.Values) (json.RawMessage, error) {
	var free time.Time
	select {
	case free = <-s.turn:
	case <-ctx.Done():
		return nil, fault(ctx.Err())
	}
	defer func() { s.turn <- free }()
	if wait := free.Sub(s.now()); wait > 0 {
		text := fmt.Sprintf("it asked to be left alone, for %s more", wait.Round(time.Second))
		return nil, imagesearch.Failure{Source: name, Code: imagesearch.CodeRateLimited, Text: text, After: wait}.Fault()
	}
	raw, err := s.rest.Get(ctx, apiPath, query)
	if err == nil {
		return raw, nil
	}
	err = fault(err)
	if after, passes := pawl.Retryable(err); passes && after > 0 {
		free = s.now().Add(after)
	}
	return nil, err
}

// answer is https://www.mediawiki.org/wiki/API:Query with https://www.mediawiki.org/wiki/API:Imageinfo in format version 2.
type answer struct {
	Complete *bool `json:"batchcomplete"`
	Query    *struct {
		Pages []json.RawMessage `json:"pages"`
	} `json:"query"`
}

type page struct {
	Title string `json:"title"`
	Info  []struct {
		URL         string          `json:"url"`
		Scaled      string          `json:"thumburl"`
		Description string          `json:"descriptionurl"`
		Metadata    json.RawMessage `json:"extmetadata"` // no object where it is empty
	} `json:"imageinfo"`
}

// results reads an answer. Pages come in any order, with their place among what was found.
func results(raw json.RawMessage, count int) ([]imagesearch.Result, error) {
	var a answer
	switch err := json.Unmarshal(raw, &a); {
	case err != nil:
		return nil, imagesearch.Strange(name, err.Error())
	case a.Query == nil && a.Complete == nil:
		return nil, imagesearch.Strange(name, "neither pages nor that there are none")
	case a.Query == nil:
		return nil, nil
	}
	slices.SortStableFunc(a.Query.Pages, func(x, y json.RawMessage) int { return cmp.Compare(place(x), place(y)) })
	return imagesearch.Results(name, a.Query.Pages, count, func(p page) imagesearch.Result {
		if len(p.Info) == 0 {
			return imagesearch.Result{}
		}
		i := p.Info[0]
		return imagesearch.Result{
			ImageURL: cmp.Or(i.Scaled, i.URL), ThumbnailURL: i.Scaled, ContextURL: i.Description,
			Title: cmp.Or(imagesearch.Plain(objectName(i.Metadata)), fileTitle(p.Title)),
		}
	})
}

func place(page json.RawMessage) float64 {
	var p struct {
		Index float64 `json:"index"`
	}
	_ = json.Unmarshal(page, &p) // what has none comes first, and is of a strange form
	return p.Index
}

// objectName is the title that somebody gave a picture, as HTML.
func objectName(metadata json.RawMessage) string {
	var m struct {
		ObjectName struct {
			Value string `json:"value"`
		}
	}
	_ = json.Unmarshal(metadata, &m) // there may be none
	return m.ObjectName.Value
}

// fileTitle is a title made of the name of a file's page.
func fileTitle(page string) string {
	file := strings.TrimPrefix(page, "File:")
	return strings.TrimSuffix(file, path.Ext(file))
}
