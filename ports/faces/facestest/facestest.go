// Package facestest is the law of recognizers of public figures.
//
// It may never know one vendor, or how a failure comes about: a vendor's tests stage it. Every case says why it is a law.
//
// Start reading at Run.
package facestest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl"
	"pawl/ports/faces"
)

// Bench is what a vendor's tests stage.
type Bench struct {
	// See makes a recognizer and a picture in which it sees this.
	See func(t *testing.T, seen faces.Recognition) (faces.Recognizer, faces.Picture)
	// Fail makes a recognizer and a picture with which it fails, by the code that comes of it, or the code and a word more.
	Fail map[string]func(t *testing.T) (faces.Recognizer, faces.Picture)
	// Bare: it tells neither where a face is nor what is known of somebody.
	Bare bool
	// Secret is what no error may tell.
	Secret string
}

// Run holds a vendor to the law.
func Run(t *testing.T, b Bench) {
	for _, c := range []struct {
		name, why string
		law       func(*testing.T, Bench)
	}{
		{"people", "who was seen arrives with how sure it is, where, and what is known of them", people},
		{"nobody", "a picture with nobody in it is an answer", nobody},
		{"order", "what a run does next must not hang on the order in which a service happens to answer", order},
		{"names are data", "a name is whatever people are called", names},
		{"own result", "whoever gets an answer may change it", ownResult},
		{"picture unchanged", "whoever shows a picture may show it to another recognizer too", unchanged},
		{"concurrent", "many may ask at once", concurrent},
		{"cancelled", "whoever cancels wants no other error", cancelled},
		{"failures", "each failure has its code, which says whether to skip the picture, to come again or to call a person", failures},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.law(t, b)
			if t.Failed() {
				t.Log("law:", c.why)
			}
		})
	}
}

// some are people of whom everything is known.
func some() faces.Recognition {
	return faces.Recognition{Unknown: 2, Faces: []faces.Face{
		{Name: "Marie Curie", Confidence: 99.5, Box: &faces.Box{Left: 0.25, Top: 0.125, Width: 0.0625, Height: 0.5}, URLs: []string{"www.wikidata.org/wiki/Q7186", "https://x.org/?a=b"}},
		{Name: "Albert Einstein", Confidence: 80, Box: &faces.Box{Left: -0.03125, Top: 0.5, Width: 0.25, Height: 0.25}},
		{Name: "Niels Bohr", Confidence: 0},
	}}
}

// as is what a vendor tells of it.
func (b Bench) as(r faces.Recognition) faces.Recognition {
	r.Faces = slices.Clone(r.Faces)
	for i := range r.Faces {
		if b.Bare {
			r.Faces[i].Box, r.Faces[i].URLs = nil, nil
		}
	}
	return r
}

// see asks, and checks what holds of every answer.
func see(t *testing.T, r faces.Recognizer, p faces.Picture) faces.Recognition {
	t.Helper()
	got, err := r.Recognize(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if got.Faces == nil || got.Unknown < 0 {
		t.Errorf("%+v", got)
	}
	for _, f := range got.Faces {
		if strings.TrimSpace(f.Name) == "" || math.IsNaN(f.Confidence) || f.Confidence < 0 || f.Confidence > 100 {
			t.Errorf("%+v", f)
		}
	}
	return got
}

func people(t *testing.T, b Bench) {
	r, p := b.See(t, some())
	if r.Name() == "" {
		t.Error("it has no name")
	}
	got, want := see(t, r, p), b.as(some())
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", shown(got), shown(want))
	}
}

func shown(r faces.Recognition) string {
	out := fmt.Sprintf("unknown %d, documented %v", r.Unknown, r.Documented)
	for _, f := range r.Faces {
		out += fmt.Sprintf("; %s %v %+v %q", f.Name, f.Confidence, f.Box, f.URLs)
	}
	return out
}

func nobody(t *testing.T, b Bench) {
	r, p := b.See(t, faces.Recognition{})
	if got := see(t, r, p); len(got.Faces) != 0 || got.Unknown != 0 {
		t.Errorf("%+v", got)
	}
	r, p = b.See(t, faces.Recognition{Unknown: 7})
	if got := see(t, r, p); len(got.Faces) != 0 || got.Unknown != 7 {
		t.Errorf("%+v", got)
	}
}

func order(t *testing.T, b Bench) {
	seen := some()
	r, p := b.See(t, seen)
	want := see(t, r, p)
	if !slices.IsSortedFunc(want.Faces, func(a, b faces.Face) int { return cmp.Compare(b.Confidence, a.Confidence) }) {
		t.Errorf("the surest is not the first: %s", shown(want))
	}
	slices.Reverse(seen.Faces)
	r, p = b.See(t, seen)
	for range 3 {
		if got := see(t, r, p); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n%s", shown(got), shown(want))
		}
	}
}

func names(t *testing.T, b Bench) {
	var seen faces.Recognition
	var want []string
	for i, name := range []string{"Beyoncé", "Beyonce\u0301", "O'Neal \"Shaq\"", "毛泽东", "Пётр Капица", "50 Cent", "will.i.am", "<b>P!nk</b>", "NaN", "null"} {
		seen.Faces = append(seen.Faces, faces.Face{Name: name, Confidence: 99 - float64(i)})
		want = append(want, name)
	}
	r, p := b.See(t, seen)
	var got []string
	for _, f := range see(t, r, p).Faces {
		got = append(got, f.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func ownResult(t *testing.T, b Bench) {
	r, p := b.See(t, some())
	want := shown(see(t, r, p))
	got := see(t, r, p)
	for i := range got.Faces {
		f := &got.Faces[i]
		f.Name, f.Confidence = "changed", 1
		clear(f.URLs)
		if f.Box != nil {
			*f.Box = faces.Box{}
		}
	}
	if again := shown(see(t, r, p)); again != want {
		t.Errorf("%s\n%s", again, want)
	}
}

func unchanged(t *testing.T, b Bench) {
	r, p := b.See(t, some())
	before := bytes.Clone(p.Bytes)
	see(t, r, p)
	if !bytes.Equal(before, p.Bytes) {
		t.Error("the picture was changed")
	}
}

func concurrent(t *testing.T, b Bench) {
	r, p := b.See(t, some())
	want := shown(see(t, r, p))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := r.Recognize(t.Context(), p); err != nil || shown(got) != want {
				t.Errorf("%s, %v", shown(got), err)
			}
		})
	}
	all.Wait()
}

func cancelled(t *testing.T, b Bench) {
	r, p := b.See(t, some())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Recognize(ctx, p); !errors.Is(err, context.Canceled) || faces.Code(err) != "" {
		t.Errorf("%v", err)
	}
	late, stop := context.WithTimeout(t.Context(), -time.Second)
	defer stop()
	_, err := r.Recognize(late, p)
	if _, again := pawl.Retryable(err); faces.RemedyOf(err) != faces.Retry || !errors.Is(err, context.DeadlineExceeded) || !again {
		t.Errorf("%v, tried again: %v", err, again)
	}
}

func failures(t *testing.T, b Bench) {
	for _, name := range slices.Sorted(maps.Keys(b.Fail)) {
		code, _, _ := strings.Cut(name, " ")
		t.Run(name, func(t *testing.T) {
			r, p := b.Fail[name](t)
			got, err := r.Recognize(t.Context(), p)
			if err == nil || faces.Code(err) != code || got.Faces != nil {
				t.Fatalf("%+v, %v (%s), want %s", got, err, faces.Code(err), code)
			}
			remedy := faces.RemedyOf(err)
			if _, again := pawl.Retryable(err); remedy == "" || again != (remedy == faces.Retry) {
				t.Errorf("remedy %q, tried again: %v: %v", remedy, again, err)
			}
			text := err.Error()
			if !strings.HasPrefix(text, r.Name()+": ") || strings.ContainsAny(text, "\n\r") || len(text) > 1000 {
				t.Errorf("the error does not say who failed in one short line: %s", text)
			}
			for _, form := range []string{text, fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
				if b.Secret != "" && strings.Contains(form, b.Secret) {
					t.Errorf("the error tells the secret: %s", form)
				}
			}
		})
	}
}
