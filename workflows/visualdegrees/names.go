package visualdegrees

import (
	"context"
	"slices"
	"strings"

	"pawl"
	"pawl/internal/text"
)

// person is by what two names are compared: one person has one. Empty: it is no name that can be searched for.
func person(name string) string {
	n, err := text.NameOf(name)
	if err != nil || len([]rune(n.Shown)) > maxName || words(n) > maxWords {
		return ""
	}
	if slices.Contains(n.Flags, text.FlagSymbol) {
		return "=" + n.Key // may be somebody else's but for the symbol
	}
	return n.Loose
}

func words(n text.Name) int { return len(strings.Fields(n.Shown)) }

// take takes a photograph among those that were seen, and notes what a person should know of the names in it. From here on a name has
// nothing that nobody sees: it goes into queries, paths, events and keys.
func (s *State) take(ctx context.Context, t *ties, p Photo) {
	p.Faces = slices.Clone(p.Faces)
	for i, f := range p.Faces {
		n, err := text.NameOf(f.Name)
		if err != nil {
			continue // nobody goes on with it: it has no id
		}
		if known := t.names[p.IDs[i]]; p.IDs[i] != "" && f.Confidence >= t.threshold && f.Name != known {
			s.spelled(pawl.Info(ctx).Node, n, known)
		}
		p.Faces[i].Name = n.Shown
	}
	s.Photos = append(s.Photos, p)
	t.add(p)
}

// spelled notes, once, what is odd about a name, and that it was taken for another spelling of a known one.
func (s *State) spelled(state string, n text.Name, known string) {
	d := Decision{State: state, Chosen: []string{n.Shown}, By: "names"}
	var why []string
	if len(n.Flags) > 0 {
		why = append(why, "flagged: "+strings.Join(n.Flags, ", "))
	}
	if o, err := text.NameOf(known); err == nil && n.Kin(o) == text.Likely {
		d.Chosen = append(d.Chosen, known)
		why = append(why, "likely the same name: taken for one person")
	}
	d.Why = strings.Join(why, "; ")
	noted := slices.ContainsFunc(s.Decisions, func(o Decision) bool { return o.By == d.By && o.Why == d.Why && text.Key(o.Chosen[0]) == n.Key })
	if d.Why != "" && !noted {
		s.decided(d)
	}
}
