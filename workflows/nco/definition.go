package nco

import (
	"regexp"
	"strings"

	"pawl/internal/text"
)

// Definitions of the international classification (ISCO-08) end in lists: examples of occupations that belong here, and
// related ones that do not, each with the code where it belongs. Both are names, of this entry and of others.
var (
	examplesMark  = regexp.MustCompile(`(?i)\bexamples of (the )?occupations (classified|included) here ?[:–-]`)
	elsewhereMark = regexp.MustCompile(`(?i)\b(some )?related occupations classified elsewhere ?[:–-]|\bexcluded from this group are ?[:–-]`)
	elsewhereItem = regexp.MustCompile(`^(.*?)[ ,–-]*\b(\d{4})\.?$`)
)

// definition parts a description: what is said of the entry, the names given as examples, and names of other entries by
// code. A description without such lists is its own body.
func definition(description string) (body string, names []string, others map[string][]string) {
	body = description
	if !strings.Contains(description, "classified") && !strings.Contains(description, " here") && !strings.Contains(description, "xcluded") {
		return body, nil, nil
	}
	if at := elsewhereMark.FindStringIndex(body); at != nil {
		others = map[string][]string{}
		for _, item := range items(body[at[1]:]) {
			if m := elsewhereItem.FindStringSubmatch(item); m != nil && text.Key(m[1]) != "" {
				others[m[2]] = append(others[m[2]], strings.TrimSpace(m[1]))
			}
		}
		body = body[:at[0]]
	}
	if at := examplesMark.FindStringIndex(body); at != nil {
		names = items(body[at[1]:])
		body = body[:at[0]]
	}
	return strings.TrimSpace(body), names, others
}

// items are the items of a list whose items begin with a dash. A dash inside a word or before a code parts nothing.
func items(list string) (out []string) {
	for item := range strings.SplitSeq(" "+list, " - ") {
		item = strings.TrimSpace(item)
		if n := len(out); n > 0 && len(item) >= 4 && digits(item[:4]) { // "Cook - 5120": the code belongs to the name before it
			out[n-1] += " " + item
			continue
		}
		if item != "" {
			out = append(out, item)
		}
	}
	return out
}

// keywords are the names in a family's description of ours: what stands behind the colon, parted by commas.
func keywords(description string) (names []string) {
	if _, list, ok := strings.Cut(description, ":"); ok {
		description = list
	}
	for item := range strings.FieldsFuncSeq(description, func(r rune) bool { return strings.ContainsRune(",;:.", r) }) {
		if item = strings.TrimSpace(item); item != "" {
			names = append(names, item)
		}
	}
	return names
}
