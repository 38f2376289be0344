package nco

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"pawl/internal/text"
)

func user(texts ...string) []Message {
	var m []Message
	for _, t := range texts {
		m = append(m, Message{Role: RoleUser, Text: t})
	}
	return m
}

// builtIn is the expander for the catalogue that is built in, made once.
var builtIn = sync.OnceValue(func() Words { return NewWords(Embedded()) })

func expand(t testing.TB, messages ...Message) Expansion {
	t.Helper()
	e, err := builtIn().Expand(t.Context(), Turn{Messages: messages})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestExpanderBuildsAQuery(t *testing.T) {
	for in, want := range map[string]string{
		"I drive a lorry between cities for a transport company": "Title: drive lorry cities",
		"Welder for 10 years in Pune":                            "Title: welder",
		"software developer at Infosys":                          "Title: software developer",
		"I stitch clothes":                                       "Title: stitch clothes",
		"nurse at Apollo Hospital":                               "Title: nurse apollo hospital",
		"bank manager":                                           "Title: bank manager",
		"ＷＥＬＤＥＲ\u200b":                                           "Title: welder",
		"10th class science teacher":                             "Title: 10th class science teacher",
		"welder, welders, welding":                               "Title: welder",
		"दर्जी का काम":                                           "Title: tailor",
	} {
		e := expand(t, user(in)...)
		if !e.Generated || e.Query != want || e.Question != "" {
			t.Errorf("%q: %q (question %q), want %q", in, e.Query, e.Question, want)
		}
	}
}

func TestExpanderLongTextHasADescription(t *testing.T) {
	var words []string
	for i := range 200 {
		words = append(words, "w"+strings.Repeat("x", i))
	}
	e := expand(t, user(strings.Join(words, " "))...)
	title, description, ok := strings.Cut(e.Query, " | ")
	if !ok || len(strings.Fields(title)) != maxTitleWords+1 || len(strings.Fields(description)) != maxQueryWords-maxTitleWords+1 {
		t.Errorf("query %q", e.Query)
	}
}

func TestExpanderDetectsAmbiguity(t *testing.T) {
	for _, c := range []struct{ in, asks string }{ // the first ones can be searched for beside the question
		{"teacher", "Whom do you teach?"},
		{"I am a school teacher", "Whom do you teach?"},
		{"Engineer", "What kind of engineer"},
		{"driver", "What do you drive?"},
		{"worker", "What do you do in your work?"},
		{"majdoor", "Aap kaam mein kya karte hain?"},
		{"मजदूर", "आप काम में क्या करते हैं?"},
		{"factory worker", "What do you do in your work?"},
		{"I work in a hospital", "What do you do there?"},
		{"Pune", "You named a place (Pune)"},
		{"I work in New Delhi since 2010", "You named a place (New Delhi)"},
		{"for a transport company", "You named who you work for"},
		{"at Infosys", "You named who you work for"},
		{"12345", "What work do you do?"},
		{"I work", "What work do you do?"},
		{"!!! 🚚 ???", "What work do you do?"},
	} {
		e := expand(t, user(c.in)...)
		says := !strings.HasPrefix(c.asks, "You named a") && !strings.HasPrefix(c.asks, "You named who") && c.asks != "What work do you do?"
		if e.Generated != says || (e.Query != "") != says || !e.Ambiguous() || !strings.Contains(e.Question, c.asks) {
			t.Errorf("%q: query %q, question %q, want %q", c.in, e.Query, e.Question, c.asks)
		}
		if len(e.Choices) > maxChoices {
			t.Errorf("%q: %d choices", c.in, len(e.Choices))
		}
	}
}

func TestExpanderSaysWhatItAssumed(t *testing.T) {
	e := expand(t, user("I drive a lorry for a transport company in Pune for 10 years")...)
	if len(e.Assumptions) != 1 || !strings.Contains(e.Assumptions[0], `"a transport company" names the employer`) {
		t.Errorf("assumptions %q", e.Assumptions)
	}
	for _, want := range []string{"for 10 years", "Pune", "a transport company"} {
		if !strings.Contains(e.Note, want) {
			t.Errorf("note %q has no %q", e.Note, want)
		}
	}
}

func TestExpanderTakesAnswers(t *testing.T) {
	first := expand(t, user("teacher")...)
	asked := Message{Role: RoleAI, Text: first.Question, Choices: first.Choices}
	free := expand(t, user("teacher")[0], asked, user("small children in a village, primary")[0])
	if !free.Generated || !strings.Contains(free.Query, "primary") || !strings.Contains(free.Query, "teacher") {
		t.Errorf("a free answer joins what was said: %q", free.Query)
	}
	picked := expand(t, user("teacher")[0], asked, user("bus driver")[0])
	if !picked.Generated || picked.Query != "Title: bus driver" {
		t.Errorf("an answer that is what something is called stands for itself: %q", picked.Query)
	}
	choice := expand(t, user("teacher")[0], asked, user(strings.ToUpper(first.Choices[1]))[0])
	if choice.Query != "Title: primary school teacher" {
		t.Errorf("a choice stands for itself: %q", choice.Query)
	}
}

// Every choice that the lexicon offers is a whole description: picking it must not lead to the same question.
func TestChoicesAreWholeDescriptions(t *testing.T) {
	for form, v := range builtIn().lexicon.vague {
		if text.Key(v.Question[english]) == "" || text.Key(v.Question[hinglish]) == "" || text.Key(v.Question[hindi]) == "" || len(v.Choices) > maxChoices {
			t.Errorf("%s: %+v", form, v)
		}
		for _, c := range v.Choices {
			e := expand(t, user(form)[0], Message{Role: RoleAI, Choices: v.Choices}, user(c)[0])
			if e.Ambiguous() {
				t.Errorf("%s: %q is asked about again: %s", form, c, e.Question)
			}
		}
	}
}

func TestSearchText(t *testing.T) {
	for in, want := range map[string]string{
		"Title: welder | Description: joins metal": "welder joins metal",
		"division: 7 | TITLE: welder":              "7 welder",
		"plain words":                              "plain words",
		"| |":                                      "",
		"Title:":                                   "",
	} {
		if got := searchText(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzExpander(f *testing.F) {
	for _, s := range []string{"teacher", "I drive a lorry for a company in Pune for 10 years", "for", "in", "at A B C", "10", "''''", "दर्जी", "\x00\xff", "with with with"} {
		f.Add(s, s)
	}
	x := builtIn()
	f.Fuzz(func(t *testing.T, first, answer string) {
		e, err := x.Expand(t.Context(), Turn{Messages: []Message{{Role: RoleUser, Text: first}, {Role: RoleAI, Choices: []string{"a", answer}}, {Role: RoleUser, Text: answer}}})
		if err != nil {
			t.Fatal(err)
		}
		if e.Generated == (e.Query == "") || (!e.Generated && e.Question == "") || e.Generated && len(text.Words(searchText(e.Query))) == 0 {
			t.Fatalf("%+v", e)
		}
		if len(strings.Fields(e.Query)) > 4*maxQueryWords {
			t.Fatalf("a query of %d words", len(strings.Fields(e.Query)))
		}
		if again := checked(e); slices.Contains(again.Applied, "the query was empty") {
			t.Fatalf("%+v", again)
		}
	})
}
