package visualdegrees

import (
	"cmp"
	"slices"

	"pawl/ports/faces"
	"pawl/ports/imagesearch"
)

// Photo is a photograph that was looked at, and whom the recognizer named in it. It is kept for the run: no photograph is looked at
// twice, and each pair is judged by what was seen (Q-000-02).
type Photo struct {
	imagesearch.Result
	Faces      []faces.Face `json:"faces,omitempty"`
	IDs        []string     `json:"ids,omitempty"` // the person of each face
	Unknown    int          `json:"unknown,omitempty"`
	Documented bool         `json:"documented,omitempty"`
	Skipped    string       `json:"skipped,omitempty"` // why nobody could look at it
}

// name is how the recognizer calls a person.
func (p Photo) name(id string) string {
	if i := slices.Index(p.IDs, id); i >= 0 {
		return p.Faces[i].Name
	}
	return ""
}

// ties are what the photographs prove: who was recognized together with whom. All that they say follows from the photographs alone and not
// from when it is asked, so that each visit, and the output, read the same.
type ties struct {
	threshold float64
	names     map[string]string          // of each person, as first seen
	of        map[string]map[string]*tie // both ways
	ranked    map[string][]string        // beside, worked out, until another photograph of the person comes
	photos    []Photo
}

// tie is what is known of two people.
type tie struct {
	photos []int   // that show both, in the order in which they were seen
	conf   float64 // the best photograph's: max over photographs of the smaller of two confidences (R-000-50, Q-000-07)
}

// tiesOf reads photographs. Only recognitions of at least threshold count; those below are dropped, never averaged.
func tiesOf(photos []Photo, threshold float64) *ties {
	t := &ties{threshold: threshold, names: map[string]string{}, of: map[string]map[string]*tie{}, ranked: map[string][]string{}}
	for _, p := range photos {
		t.add(p)
	}
	return t
}

// add takes one more photograph in.
func (t *ties) add(p Photo) {
	i := len(t.photos)
	t.photos = append(t.photos, p)
	in := t.recognized(p)
	for n, x := range in {
		if _, ok := t.names[x.id]; !ok {
			t.names[x.id] = p.name(x.id)
		}
		for _, y := range in[:n] {
			one := t.of[x.id][y.id]
			if one == nil {
				one = &tie{}
				t.tie(x.id, y.id, one)
				t.tie(y.id, x.id, one)
			}
			one.photos, one.conf = append(one.photos, i), max(one.conf, min(x.conf, y.conf))
			delete(t.ranked, x.id)
			delete(t.ranked, y.id)
		}
	}
}

func (t *ties) tie(a, b string, one *tie) {
	if t.of[a] == nil {
		t.of[a] = map[string]*tie{}
	}
	t.of[a][b] = one
}

// between are the photographs of two people, and the best confidence.
func (t *ties) between(a, b string) tie {
	if one := t.of[a][b]; one != nil {
		return *one
	}
	return tie{}
}

// people are the persons of faces, which stay what they were found to be.
func people(fs []faces.Face) (ids []string) {
	for _, f := range fs {
		ids = append(ids, person(f.Name))
	}
	return ids
}

// hit is a person who counts in a photograph.
type hit struct {
	id   string
	conf float64 // the best of the person's faces
}

// recognized are the people of a photograph that count.
func (t *ties) recognized(p Photo) []hit {
	in := make([]hit, 0, len(p.Faces))
	for i, f := range p.Faces {
		id := p.IDs[i]
		if f.Confidence < t.threshold || id == "" {
			continue
		}
		if j := slices.IndexFunc(in, func(h hit) bool { return h.id == id }); j >= 0 {
			in[j].conf = max(in[j].conf, f.Confidence)
			continue
		}
		in = append(in, hit{id, f.Confidence})
	}
	return in
}

// shows is how surely a photograph shows a person; 0: it does not count.
func (t *ties) shows(p Photo, id string) float64 {
	for _, h := range t.recognized(p) {
		if h.id == id {
			return h.conf
		}
	}
	return 0
}

// score is min(confP, confQ) in one photograph.
func (t *ties) score(photo int, a, b string) float64 {
	return min(t.shows(t.photos[photo], a), t.shows(t.photos[photo], b))
}

// proven reports whether a photograph shows both.
func (t *ties) proven(a, b string) bool { return t.of[a][b] != nil }

// beside are those who were seen with a person: best confidence first, then the number of photographs (R-000-34), then the name. Nothing
// but the person's own photographs decides.
func (t *ties) beside(a string) []string {
	if ids, ok := t.ranked[a]; ok {
		return ids
	}
	type one struct {
		id     string
		conf   float64
		photos int
	}
	all := make([]one, 0, len(t.of[a]))
	for b, tie := range t.of[a] {
		all = append(all, one{b, tie.conf, len(tie.photos)})
	}
	slices.SortFunc(all, func(x, y one) int {
		return cmp.Or(cmp.Compare(y.conf, x.conf), cmp.Compare(y.photos, x.photos), cmp.Compare(x.id, y.id))
	})
	ids := make([]string, len(all))
	for i, o := range all {
		ids[i] = o.id
	}
	t.ranked[a] = ids
	return ids
}

// reach is how many edges everybody who can be reached is away from a person, and over whom.
type reach struct {
	depth map[string]int
	from  map[string]string
	order []string // nearest first
}

// reach walks the proven edges from a person, limit of them at most.
func (t *ties) reach(root string, limit int) reach { return t.walk(root, "", limit) }

// walk ends as soon as it comes to somebody.
func (t *ties) walk(root, to string, limit int) reach {
	r := reach{depth: map[string]int{root: 0}, from: map[string]string{}, order: []string{root}}
	for i := 0; i < len(r.order); i++ {
		a := r.order[i]
		if a == to {
			break
		}
		if r.depth[a] == limit {
			continue
		}
		for _, b := range t.beside(a) {
			if _, seen := r.depth[b]; !seen {
				r.depth[b], r.from[b] = r.depth[a]+1, a
				r.order = append(r.order, b)
			}
		}
	}
	return r
}

// chain is the way from the root to somebody who was reached.
func (r reach) chain(to string) []string {
	path := []string{to}
	for from, ok := r.from[to]; ok; from, ok = r.from[from] {
		path = append(path, from)
	}
	slices.Reverse(path)
	return path
}

// path is a shortest proven way of at most limit edges; nil: there is none.
func (t *ties) path(a, b string, limit int) []string {
	r := t.walk(a, b, limit)
	if _, ok := r.depth[b]; !ok {
		return nil
	}
	return r.chain(b)
}
