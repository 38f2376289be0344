package visualdegrees

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"pawl/internal/text"
)

const (
	slot = "\x00" // where a name stood

	isSeen = ` (appears|is seen|was seen|is photographed|was photographed)( most| more)?( often| frequently| clearly)?`
	withIt = `( (with|beside) ` + slot + `)?( in (most|many|several|two|three) (photographs|photos|pictures|images))?`
)

// forms are the sentences that a model may say of its choice, with those who were offered: who is tried, and who is seen with whom. They
// claim nothing else. Words that are allowed one by one could be put together to say anything.
var forms = []*regexp.Regexp{
	regexp.MustCompile(`(?i)^(now |next,? )?` +
		`(trying|exploring|expanding|following|checking|considering|testing|searching|looking|going|going on|continuing|moving on|proceeding)` +
		`( (an|the|this) (expansion|path|route|search|chain|step))?( (via|through|with|from|to|for|along|at))? ` + slot +
		`( (and|then|and then) ` + slot + `)?( next| now| first)?( (towards?|to reach|on the way to) ` + slot + `)?` +
		`(,? (who|because ` + slot + `|since ` + slot + `|as ` + slot + `)` + isSeen + withIt + `)?[.…]?$`),
	regexp.MustCompile(`(?i)^` + slot + isSeen + withIt + `[.…]?$`),
	regexp.MustCompile(`(?i)^(going on|continuing|trying the next one|expanding the search)[.…]?$`),
}

// shown is a model's narration as people read it (R-000-36); empty: it is none of the sentences that the program can stand for, and
// its own is told instead.
func (b brief) shown(narration string) string {
	said := strings.Join(strings.Fields(narration), " ")
	names := []string{b.PersonA, b.PersonB, b.Frontier, b.Target}
	for _, c := range b.Candidates {
		names = append(names, c.Name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may be part of another
	form := said
	for _, n := range names {
		form = named(form, n)
	}
	odd := func(r rune) bool { return r > '~' && r != '…' } // letters that look like others
	if strings.Contains(said, slot) || strings.ContainsFunc(form, odd) || !slices.ContainsFunc(forms, func(f *regexp.Regexp) bool { return f.MatchString(form) }) {
		return ""
	}
	return said
}

// named puts a slot for each place where the whole name stands.
func named(said, name string) string {
	if name == "" {
		return said
	}
	var out strings.Builder
	for {
		i := strings.Index(said, name)
		if i < 0 {
			return out.String() + said
		}
		end := i + len(name)
		out.WriteString(said[:i])
		before, _ := utf8.DecodeLastRuneInString(said[:i])
		after, _ := utf8.DecodeRuneInString(said[end:])
		if text.InWord(before) || text.InWord(after) {
			out.WriteString(name)
		} else {
			out.WriteString(slot)
		}
		said = said[end:]
	}
}
