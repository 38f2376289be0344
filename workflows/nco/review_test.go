package nco

import (
	"strings"
	"testing"

	"pawl"
)

// What nobody sees parts no words: joiners are how Devanagari is written, the rest comes with text that was copied.
func TestInvisibleInWords(t *testing.T) {
	a := agent(t, Embedded())
	for text, code := range map[string]string{
		"ड्\u200dराइवर बस": "8331", "ट्रक ड्\u200cराइवर": "8332", "इलेक्\u200dट्रीशियन": "7411", "plum\u00adber": "7126", "tai\u200blor": "7531",
	} {
		if out := matched(t, a, text); out.Codes[0].Code != code {
			t.Errorf("%q: %+v, want %s", text, out.Codes, code)
		}
	}
}

// Words of one translation show the same phrase: where one of them fits, the phrase is not missing.
func TestPhraseIsNotMissing(t *testing.T) {
	a := agent(t, Embedded())
	a.Turns = -1
	out, err := pawl.Execute(t.Context(), Graph(a), Input{Text: "truck chalata hoon"})
	if err != nil {
		t.Fatal(err)
	}
	why := strings.Join(out.Why, "\n")
	if !strings.Contains(why, "Runner-up: ") || strings.Contains(why, `nothing of "truck chalata hoon"`) {
		t.Error(why)
	}
}

// An answer that is a code or a number of nothing is said to be of no use, in the next question and in the step log.
func TestAnswerOfNoUse(t *testing.T) {
	for answer, says := range map[string]string{
		"9999.0100": "The code 9999.0100 is not in the catalogue. ", " 7212.99. ": "The code 7212.9900 is not in the catalogue. ",
		"17": "There is no choice 17. ", "option 0": "There is no choice 0. ", "hm": "",
	} {
		p := play{Agent: agent(t, small(t)), answers: []string{answer}}
		out := p.run(t, "driver")
		if len(p.asked) != 2 || p.asked[1].Text != says+p.asked[0].Text || out.Question != p.asked[1].Text {
			t.Errorf("%q: %+v, %q", answer, p.asked, out.Question)
		}
		noted := len(p.notes) > 0 && strings.Contains(p.notes[0].Rules[0], strings.TrimSpace(says))
		if says != "" && (!noted || p.notes[0].At != "user_info") || says == "" && len(p.notes) > 0 {
			t.Errorf("%q: notes %+v", answer, p.notes)
		}
	}
	p := play{Agent: agent(t, small(t)), answers: []string{"१७"}}
	if p.run(t, "मैं ड्राइवर हूँ"); len(p.asked) != 2 || !strings.HasPrefix(p.asked[1].Text, "विकल्प 17 नहीं है। ") {
		t.Errorf("%+v", p.asked)
	}
}

// The number of a choice is understood however it is written, and nothing else is taken for one.
func TestChoiceNumbers(t *testing.T) {
	choices := []string{"Car driver", "Bus driver"}
	for in, want := range map[string]string{
		"२": "Bus driver", "2.": "Bus driver", "(2)": "Bus driver", "Option 2": "Bus driver", "number २": "Bus driver", "विकल्प 2": "Bus driver",
		"no. 1": "Car driver", "option": "option", "2 years": "2 years", "2 1": "2 1", "1.5": "1.5", "bus 2": "bus 2",
	} {
		if got, _ := heard(in, choices); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Rank gives as many as it is asked for, where there are as many.
func TestRankGivesAsMany(t *testing.T) {
	a := agent(t, Embedded())
	for _, k := range []int{1, 5, 8} {
		if got, err := a.Rank(t.Context(), "driver of a truck, bus or car", k); err != nil || len(got) != k {
			t.Errorf("%d: %d entries, %v", k, len(got), err)
		}
	}
}

// Columns that are not read may have one name.
func TestColumnsOfNobody(t *testing.T) {
	for text, says := range map[string]string{
		"job_title,isco08_gold,query,query,category,category\ncook,5120,,,,\n": "",
		"job_title,isco08_gold,note,note\ncook,5120,,\n":                       "",
		"job_title,isco08_gold,job_title\ncook,5120,\n":                        "two columns job_title",
	} {
		rows, err := LoadGold("q", strings.NewReader(text))
		if says == "" && (err != nil || len(rows) != 1) || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// No control character gets out, nor one that turns the direction of what stands behind it.
func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"a\x7fb": "a b", "a\u0085b": "a b", "a\u202eb\u2066c\u200f": "abc", "a\n\tb": "a\n\tb", "ड्\u200dराइवर": "ड्\u200dराइवर",
	} {
		if got, changed := plainText(in, 100); got != want || changed != (in != want) {
			t.Errorf("%q: %q, %v", in, got, changed)
		}
	}
}
