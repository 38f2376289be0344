package nco

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pawl/internal/text"
)

// heard is an answer as it is used: the number of a choice is that choice, and what cannot be read is cut or cleaned.
func heard(answer string, choices []string) (said string, rules []string) {
	if n, ok := choiceNumber(answer); ok && n >= 1 && n <= len(choices) {
		return choices[n-1], []string{fmt.Sprintf("the answer %d was read as choice %d", n, n)}
	}
	said, changed := plainText(answer, MaxText)
	if changed {
		rules = append(rules, fmt.Sprintf("the answer was cut to %d characters or cleaned", MaxText))
	}
	return said, rules
}

// choiceNumber is the number that an answer consists of, however it is written: "2", "२", "(2)", "2.", "option 2".
func choiceNumber(answer string) (n int, ok bool) {
	words := text.Words(text.LatinDigits(answer))
	if len(words) == 0 || slices.ContainsFunc(words[:len(words)-1], func(w string) bool { return !choiceWord(w) }) {
		return 0, false
	}
	last := words[len(words)-1]
	if n, err := strconv.Atoi(last); err == nil && digits(last) {
		return n, true
	}
	return 0, false
}

// choiceWord says whether people put a word before the number of a choice.
func choiceWord(form string) bool {
	for _, w := range []string{"option", "number", "no", "choice", "answer", "vikalp", "विकल्प", "नंबर", "नम्बर", "संख्या"} {
		if slices.Contains(text.Words(w), form) {
			return true
		}
	}
	return false
}

// codeSaid is what somebody said if that has the form of a code.
func codeSaid(said string) (code string, ok bool) {
	code, _, ok = readCode(strings.Trim(text.LatinDigits(said), " \t\r\n.,;:()[]"))
	return code, ok
}

// misheard says why the last answer was of no use, where it is a code or a number that stands for nothing: who only got the
// same question again would not know. It is empty for every other answer. It is said in the script of what it is said with.
func (a Agent) misheard(messages []Message, with string) string {
	n := len(messages)
	if n < 2 || messages[n-1].Role != RoleUser || messages[n-2].Role != RoleAI {
		return ""
	}
	said, question := messages[n-1].Text, messages[n-2]
	t := english
	if devanagari(with) {
		t = hindi
	}
	if code, ok := codeSaid(said); ok && len(code) >= 4 {
		if _, known := a.Catalog.Entry(code); known {
			return ""
		}
		return sayNoEntry.with(t, code)[0]
	}
	if n, ok := choiceNumber(said); ok && len(question.Choices) > 0 && (n < 1 || n > len(question.Choices)) {
		return sayNoChoice.with(t, strconv.Itoa(n))[0]
	}
	return ""
}
