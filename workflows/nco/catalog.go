package nco

import (
	"crypto/sha256"
	"embed"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"pawl/internal/text"
	"pawl/ports/index"
)

//go:embed families.csv
var families embed.FS

// Catalog is one edition of a classification of occupations, as it was loaded. It never changes.
//
// Its entries are what a description can be coded to; its headings are the divisions, sub-divisions, groups and families
// above them. In a catalogue of occupations (NNNN.NNNN) a family (NNNN) is a heading, except where no occupation stands
// under it: then it is the most exact thing there is, and an entry.
type Catalog struct {
	name     string
	hash     string
	entries  []Entry // by code
	at       map[string]int
	headings map[string]string
	report   Report

	documents []index.Document
	groups    []index.Group
}

// Entry is one thing that a description can be coded to.
type Entry struct {
	Code        string // NNNN.NNNN or NNNN: text, never a number
	Title       string
	Description string
}

// Report says what loading a catalogue did.
type Report struct {
	Rows     int // rows of the file, the header not counted
	Entries  int
	Headings int
	Padded   int // codes that were written as decimals and got zeros on the right
}

// Embedded is the catalogue that is built in: the families of NCO-2015. Codes and titles are facts of the
// classification; every describing word is ours.
func Embedded() *Catalog {
	file, err := families.Open("families.csv")
	if err != nil {
		panic("nco: " + err.Error()) // it is in the binary
	}
	c, err := parse("embedded", file)
	if err == nil {
		err = c.settle(nil)
	}
	if err != nil {
		panic("nco: " + err.Error()) // a test loads it: a release cannot get here
	}
	return c
}

// Name is the name under which it was loaded.
func (c *Catalog) Name() string { return c.name }

// Hash is the SHA-256 of what the catalogue says, in hex: the same entries and headings have the same hash, however the file spells them.
func (c *Catalog) Hash() string { return c.hash }

// Report says what loading did.
func (c *Catalog) Report() Report { return c.report }

// Entry finds an entry by its code.
func (c *Catalog) Entry(code string) (Entry, bool) {
	i, ok := c.at[code]
	if !ok {
		return Entry{}, false
	}
	return c.entries[i], true
}

// All gives the entries in the order of their codes.
func (c *Catalog) All() iter.Seq[Entry] { return slices.Values(c.entries) }

// Heading is the title of a division (N), sub-division (NN), group (NNN) or family (NNNN), empty if there is none.
func (c *Catalog) Heading(code string) string {
	if h := c.headings[code]; h != "" {
		return h
	}
	e, _ := c.Entry(code)
	return e.Title
}

// Family is the family of an entry's code and its title.
func (c *Catalog) Family(code string) (family, title string) {
	family = prefix(code, 4)
	return family, c.Heading(family)
}

// Division is the first digit of a code.
func Division(code string) string { return prefix(code, 1) }

func prefix(code string, n int) string { return code[:min(n, len(code))] }

// Residual says whether an entry is what is left over ("n.e.c.", "Other …"): never right when a specific one fits.
func (e Entry) Residual() bool {
	if strings.HasSuffix(e.Code, ".9900") {
		return true
	}
	title := " " + strings.Join(text.Words(e.Title), " ") + " "
	for _, mark := range []string{" not elsewhere classified ", " n e c ", " nec "} {
		if strings.Contains(title, mark) {
			return true
		}
	}
	return strings.HasPrefix(title, " other ") || strings.HasSuffix(title, " other ") || strings.HasSuffix(title, " others ")
}

// Names are the other forms in which an entry's title is said: each of the alternatives between slashes or semicolons,
// and "car driver" for "Driver, Car".
func (e Entry) Names() []string {
	var names []string
	for _, part := range strings.FieldsFunc(e.Title, func(r rune) bool { return r == '/' || r == ';' }) {
		part = strings.TrimSpace(part)
		if part != "" && part != e.Title {
			names = append(names, part)
		}
		if noun, kind, ok := strings.Cut(part, ","); ok && strings.TrimSpace(kind) != "" && !strings.Contains(kind, ",") {
			names = append(names, strings.TrimSpace(kind)+" "+strings.TrimSpace(noun))
		}
	}
	return names
}

// Documents are the entries as an index takes them: with the names that their definitions give them, or definitions of
// others, and with ours where an entry is a family. An occupation belongs to the group of its family.
func (c *Catalog) Documents() []index.Document { return slices.Clone(c.documents) }

// Groups are the families of the occupations, with their titles and our names for them.
func (c *Catalog) Groups() []index.Group { return slices.Clone(c.groups) }

// arrange makes the documents and the groups. own are our names for the families, by code.
func (c *Catalog) arrange(own map[string][]string) {
	elsewhere := map[string][]string{}
	for _, e := range c.entries {
		body, names, others := definition(e.Description)
		d := index.Document{ID: e.Code, Title: e.Title, Names: append(e.Names(), names...), Text: body}
		if len(e.Code) == 4 {
			d.Names = append(d.Names, own[e.Code]...)
		} else {
			d.Group = prefix(e.Code, 4)
		}
		c.documents = append(c.documents, d)
		for code, names := range others {
			elsewhere[code] = append(elsewhere[code], names...)
		}
		family, title := c.Family(e.Code)
		if family != e.Code && (len(c.groups) == 0 || c.groups[len(c.groups)-1].ID != family) {
			c.groups = append(c.groups, index.Group{ID: family, Names: append([]string{title}, own[family]...)})
		}
	}
	for i := range c.documents {
		c.documents[i].Names = append(c.documents[i].Names, elsewhere[c.documents[i].ID]...)
	}
}

// familyNames are our names for the families, by code: those in the descriptions of the catalogue that is built in, and more.
func familyNames(builtIn *Catalog) map[string][]string {
	names := map[string][]string{}
	for _, e := range builtIn.entries {
		names[e.Code] = keywords(e.Description)
	}
	rows, err := csv.NewReader(strings.NewReader(lexiconFile("names.csv"))).ReadAll()
	if err != nil {
		panic("nco: lexicon: " + err.Error())
	}
	for _, row := range rows[1:] {
		names[row[0]] = append(names[row[0]], strings.Split(row[1], "|")...)
	}
	return names
}

// settle makes the catalogue whole once its rows are read: families of occupations become headings, headings that the
// file does not give come from above, and what it says is hashed.
func (c *Catalog) settle(above *Catalog) error {
	occupied := map[string]bool{}
	for _, e := range c.entries {
		if len(e.Code) > 4 {
			occupied[prefix(e.Code, 4)] = true
		}
	}
	c.entries = slices.DeleteFunc(c.entries, func(e Entry) bool {
		if len(e.Code) == 4 && occupied[e.Code] {
			c.headings[e.Code] = e.Title
			return true
		}
		return false
	})
	if len(c.entries) == 0 {
		return fmt.Errorf("catalogue %s: no entry in it: codes of entries have the form NNNN.NNNN or NNNN", c.name)
	}
	slices.SortFunc(c.entries, func(a, b Entry) int { return strings.Compare(a.Code, b.Code) })
	c.report.Entries, c.report.Headings = len(c.entries), len(c.headings)
	c.at = make(map[string]int, len(c.entries))
	for i, e := range c.entries {
		c.at[e.Code] = i
		for n := 1; n <= 4 && above != nil; n++ {
			if h := prefix(e.Code, n); c.Heading(h) == "" && above.Heading(h) != "" {
				c.headings[h] = above.Heading(h)
			}
		}
	}
	c.hash = c.digest()
	if above == nil {
		above = c
	}
	c.arrange(familyNames(above))
	return nil
}

func (c *Catalog) digest() string {
	h := sha256.New()
	for _, code := range slices.Sorted(maps.Keys(c.headings)) {
		fmt.Fprintf(h, "%s\x00%s\x00\n", code, c.headings[code])
	}
	for _, e := range c.entries {
		fmt.Fprintf(h, "%s\x00%s\x00%s\n", e.Code, e.Title, e.Description)
	}
	return hex.EncodeToString(h.Sum(nil))
}
