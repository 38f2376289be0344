package visualdegrees

import (
	"slices"
	"strings"
	"unicode"

	"pawl/internal/text"
)

// Beside the names that were offered, a narration that is shown is made of these words only: with them a choice can be told, and nothing
// claimed of people but that they are seen in pictures. No list of words that may not be used would be long enough.
const telling = " " +
	"a an the and or but nor of to from via through with without by for in on at as into onto toward towards between beyond " +
	"across around because since so then now next first second third last again also still just only both each another other " +
	"others more most less least many few several some any all one two three not no yet too very is are was were be been " +
	"being has have had do does did may might could can will would should shall let us we our i it its this that these those " +
	"there here they them their he him his she her who whom whose which what where when how try trying tries tried expand " +
	"expanding expands expansion explore exploring explores going go goes continue continuing continues move moving moves " +
	"follow following look looking looks search searching searches check checking checks verify verifying test testing choose " +
	"choosing chosen pick picking picked select selecting selected use using consider considering start starting turn turning " +
	"step steps attempt attempting pursue pursuing proceed proceeding branch branching hop hops path paths route routes way " +
	"ways chain bridge bridges bridging linking connecting reach reaches reaching lead leads leading direction side nearer " +
	"forward onward ahead back appear appears appeared appearing seen see shown shows show stand stands standing recognized " +
	"recognised recognition found find finding photo photos photograph photographs photographed photographic picture pictures " +
	"pictured image images evidence confidence confidently strong stronger strongest strongly best better good high higher " +
	"highest likely promising candidate candidates choice option options person people frontier target often frequently " +
	"together count counts times number result results surely clearly clear "

// shown is a model's narration as people read it (R-000-36); empty: it says something that the program cannot stand for, and its own
// sentence is told instead.
func (b brief) shown(narration string) string {
	names := []string{b.PersonA, b.PersonB, b.Frontier, b.Target}
	for _, c := range b.Candidates {
		names = append(names, c.Name)
	}
	said := strings.Join(strings.Fields(narration), " ")
	if text.Visible(said) != said || strings.IndexFunc(said, strange) >= 0 {
		return ""
	}
	known := text.Words(strings.Join(names, " "))
	for _, w := range text.Words(strings.NewReplacer("'s ", " ", "’s ", " ").Replace(said)) {
		if !strings.Contains(telling, " "+w+" ") && !slices.Contains(known, w) {
			return ""
		}
	}
	return said
}

// strange is what no plain sentence has.
func strange(r rune) bool {
	return !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && !strings.ContainsRune(" ,.!?…'’\"“”–—-:;()", r)
}
