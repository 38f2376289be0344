package nco

import (
	"strings"
	"testing"

	"pawl"
)

// What people write comes in kinds, and each kind has its right end: the family that answers, a question with these words in
// it, or a refusal. The inputs are ours; no evaluation has them.
func TestKindsOfInput(t *testing.T) {
	a := agent(t, Embedded())
	a.Turns = -1
	a = a.settled()
	const asks, refuses = "?", "!"
	for _, kind := range []struct {
		kind string
		ends [][2]string // input; family, "?" and words of the question, or "!" and words of the refusal
	}{
		{"typos are read as the word that they come nearest to, and said to be assumed", [][2]string{
			{"carpanter", "7115"}, {"electritian", "7411"}, {"photografer", "3431"}, {"barbar", "5141"}, {"hairdreser", "5141"},
			{"journlist", "2642"}, {"welderr", "7212"}, {"bricklayar", "7112"}, {"librarain", "2622"},
		}},
		{"Hindi in Latin letters, however it is spelled", [][2]string{
			{"dhobi", "9121"}, {"mochi", "7536"}, {"lohaar", "7221"}, {"kumhar", "7314"}, {"halwai", "7512"}, {"machhuara", "6222"},
			{"sabji bechta hun", "5211"}, {"truck chalata hoon", "8332"}, {"gaadi theek karta hu", "7231"},
		}},
		{"Hindi in Devanagari", [][2]string{
			{"लोहार", "7221"}, {"मोची", "7536"}, {"कुम्हार", "7314"}, {"सब्जी बेचता हूं", "5211"}, {"ट्रक चलाता हूँ", "8332"},
		}},
		{"mixed script", [][2]string{{"truck ड्राइवर", "8332"}, {"मैं plumber हूं", "7126"}, {"electrician का काम", "7411"}}},
		{"plural and inflected forms are one with the plain one", [][2]string{{"plumbers", "7126"}, {"welders", "7212"}, {"repairs watches", "7311"}, {"carpenters", "7115"}}},
		{"gender forms", [][2]string{{"fisherwoman", "6222"}, {"policewoman", "5412"}, {"dhoban", "9121"}, {"waitress", "5131"}, {"air hostess", "5111"}}},
		{"abbreviations", [][2]string{{"CA", "2411"}, {"TTE", "5112"}, {"JCB operator", "8342"}, {"IT", "?"}, {"ANM", "3222"}}},
		{"what trails behind names no work", [][2]string{
			{"plumber for 10 years in Pune", "7126"}, {"Electrician, 5 yrs experience, Delhi", "7411"}, {"I am a tailor since 2004 in Lucknow", "7531"},
			{"welder at Bharat Heavy Electricals Limited", "7212"},
		}},
		{"two jobs in one sentence are asked about", [][2]string{
			{"I am a plumber and I also teach music", asks + "more than one kind of work"}, {"tailor and electrician", asks + "more than one kind of work"},
		}},
		{"a place alone, never guessed from", [][2]string{{"Kanpur", asks + "You named a place (Kanpur)"}, {"I work in Surat", asks + "You named a place"}}},
		{"where somebody works", [][2]string{{"school", asks + "You named where you work"}, {"in a bank", asks + "where you work"}}},
		{"an employer alone", [][2]string{{"at Wipro", asks + "You named who you work for"}, {"for a private company", asks + "who you work for"}}},
		{"a word that many occupations share", [][2]string{
			{"engineer", asks + "What kind of engineer"}, {"operator", asks + "machine"}, {"supervisor", asks + "supervise"}, {"मैनेजर", asks + "आप क्या सँभालते हैं"},
			{"mazdoor", asks + "kaam"}, {"retired", asks + "paid work"},
		}},
		{"nonsense", [][2]string{{"asdfgh qwerty", asks}, {"zzzz", asks}, {"🚚🚚", asks + "What work do you do"}, {"12345", asks + "What work do you do"}}},
		{"a script that is not read here", [][2]string{{"ஆசிரியர்", asks + "English and Hindi"}, {"ডাক্তার", asks + "English and Hindi"}}},
		{"what is no description at all", [][2]string{{" ", refuses + "empty"}, {"a\x00b", refuses + "NUL"}, {strings.Repeat("x", MaxText+1), refuses + "limit"}}},
	} {
		t.Run(strings.ReplaceAll(kind.kind, " ", "_"), func(t *testing.T) {
			for _, c := range kind.ends {
				out, err := pawl.Execute(t.Context(), Graph(a), Input{Text: c[0]})
				switch want, words := c[1][:1], c[1][1:]; {
				case want == refuses:
					if err == nil || !strings.Contains(err.Error(), words) {
						t.Errorf("%.20q: %v, want a refusal with %q", c[0], err, words)
					}
				case err != nil:
					t.Errorf("%q: %v", c[0], err)
				case want == asks:
					if out.Status != MoreInfo || !strings.Contains(out.Question, words) {
						t.Errorf("%q: %s %q, want a question with %q", c[0], out.Status, out.Question, words)
					}
				case out.Status != MatchFound || out.Codes[0].Code != c[1]:
					t.Errorf("%q: %s %v %q %q, want %s (%v)", c[0], out.Status, out.Codes, out.Question, out.Choices, c[1], out.Why)
				case strings.HasPrefix(kind.kind, "typos") && len(out.Assumptions) == 0 && !strings.Contains(out.Why[0], "Read as"):
					t.Errorf("%q: nothing is said to be assumed", c[0])
				}
			}
		})
	}
}
