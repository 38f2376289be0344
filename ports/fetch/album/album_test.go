package album_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"pawl"
	photos "pawl/internal/album"
	"pawl/ports/fetch"
	"pawl/ports/fetch/album"
	"pawl/ports/fetch/fetchtest"
)

func TestLaw(t *testing.T) {
	fetchtest.Run(t, func(t *testing.T, outcome string) (fetch.Fetcher, string) {
		a, err := photos.Load("staged", strings.NewReader("id,people,fetch_outcome\n1,Ann,"+outcome+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		return album.New(a), "album:1"
	})
}

// TestEmbedded: all of the album that is built in can be fetched.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	a := photos.Embedded()
	for _, p := range a.Photos() {
		if got, err := album.New(a).Image(t.Context(), p.URL()); err != nil || got.URL != p.URL() || got.Type != "image/jpeg" || got.Bytes != nil {
			t.Errorf("%s: %+v, %v", p.ID, got, err)
		}
	}
}

// TestUnknown: an album never fetches what is not in it, and a call whose time is up says so.
func TestUnknown(t *testing.T) {
	t.Parallel()
	f := album.New(photos.Embedded())
	for _, url := range []string{"album:no-such", "album:", "https://a.example/solvay-1911.jpg"} {
		_, err := f.Image(t.Context(), url)
		if _, again := pawl.Retryable(err); fetch.Code(err) != fetch.CodeBlocked || again {
			t.Errorf("%q: %v", url, err)
		}
	}
	late, stop := context.WithTimeout(t.Context(), -time.Second)
	defer stop()
	_, err := f.Image(late, "album:solvay-1911")
	if _, again := pawl.Retryable(err); fetch.Code(err) != pawl.CodeTimeout || !again {
		t.Errorf("too late: %v", err)
	}
}
