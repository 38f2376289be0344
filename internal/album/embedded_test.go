package album

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pawl/internal/text"
)

// collections are where the photographs of the album that is built in are kept, or what kind they are of.
var collections = []string{
	"Caltech Archives", "Cavendish Laboratory", "Clinton Library", "Concerts and studios", "Eisenhower Library",
	"Emilio Segrè Visual Archives", "Film sets and premieres", "Franklin D. Roosevelt Library",
	"George H. W. Bush Library", "Gerald R. Ford Library", "German Federal Government", "Gertrude Bell Archive",
	"Huntington Library", "Imperial War Museums", "Indian archives", "Institute for Advanced Study",
	"Jimmy Carter Library", "John F. Kennedy Library", "LBJ Library", "Lawrence Berkeley National Laboratory",
	"Leiden Observatory", "Library of Congress", "NASA", "New England Historic Genealogical Society",
	"Nobel Foundation", "Press photographs", "Private photographs", "Richard Nixon Library", "Ronald Reagan Library",
	"Smithsonian Institution", "Solvay Institutes", "Sport photographs", "TASS", "The Henry Ford", "Truman Library",
	"U.S. Army Signal Corps", "U.S. Department of Energy", "U.S. National Archives",
	"U.S. Naval History and Heritage Command", "White House", "White House Historical Association",
	"Wright State University",
}

var goodID = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*-[0-9]{4}$`)

// TestEmbedded holds every line to what a reader may expect of it. What it says of the people no test can know.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	a := Embedded()
	names := map[string]string{} // by their words, without accents: a person has one spelling
	for _, p := range a.Photos() {
		if !goodID.MatchString(p.ID) || !strings.HasSuffix(p.ID, "-"+strconv.Itoa(p.Year)) || p.Year < 1880 || p.Year > 2026 {
			t.Errorf("%s, %d: want an id in small letters that ends with the year", p.ID, p.Year)
		}
		if p.Title == "" || len(p.People) < 2 || !p.Documented || p.Outcome != OK || p.Unknown != 0 {
			t.Errorf("%s: %+v", p.ID, p)
		}
		if !slices.Contains(collections, p.Collection) {
			t.Errorf("%s: the collection %q is not known", p.ID, p.Collection)
		}
		for _, name := range p.People {
			words := strings.Join(text.Words(name), " ")
			if other := cmp.Or(names[words], name); other != name {
				t.Errorf("%s: %q is elsewhere %q", p.ID, name, other)
			}
			names[words] = name
		}
	}
	if !slices.IsSortedFunc(a.Photos(), func(a, b Photo) int { return cmp.Or(cmp.Compare(a.Year, b.Year), cmp.Compare(a.ID, b.ID)) }) {
		t.Error("not sorted by year and id")
	}
	if len(a.Photos()) < 250 || len(names) < 400 {
		t.Errorf("%d photographs and %d people: some were lost", len(a.Photos()), len(names))
	}
}

// TestConnected: everybody can be reached from everybody else, most in six edges, Madame Curie and Churchill in two.
func TestConnected(t *testing.T) {
	t.Parallel()
	beside := map[string][]string{}
	for _, p := range Embedded().Photos() {
		for _, name := range p.People {
			beside[name] = append(beside[name], p.People...)
		}
	}
	near, all := 0, 0
	for from := range beside {
		far := map[string]int{from: 0}
		for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
			for _, next := range beside[queue[0]] {
				if _, seen := far[next]; !seen {
					far[next] = far[queue[0]] + 1
					queue = append(queue, next)
				}
			}
		}
		if len(far) != len(beside) {
			t.Fatalf("%s reaches %d of %d people", from, len(far), len(beside))
		}
		if from == "Marie Curie" && far["Winston Churchill"] != 2 {
			t.Errorf("from Marie Curie to Winston Churchill: %d edges", far["Winston Churchill"])
		}
		for _, edges := range far {
			if all++; edges <= 6 {
				near++
			}
		}
	}
	if near*100 < all*85 {
		t.Errorf("%d of %d pairs are connected by six edges", near, all)
	}
}
