package text

import "strings"

// Stem brings the English forms of one word together, in particular the doing and the doer: drive, drives, driving and
// driver are all "driv". It is deliberately coarse and applied to both sides of a search. Other scripts pass unchanged.
func Stem(w string) string {
	if len(w) < 4 || !ascii(w) {
		return w
	}
	w = singular(w)
	for _, end := range []string{"ing", "ed", "er", "or"} {
		if base, ok := strings.CutSuffix(w, end); ok && stands(base, end) {
			w = undouble(base)
			if end != "ing" && end != "ed" { // "engineering" is done by an "engineer": one more ending may follow
				break
			}
		}
	}
	if base, ok := strings.CutSuffix(w, "e"); ok && len(base) >= 3 {
		w = base
	}
	return w
}

func singular(w string) string {
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		return w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"), strings.HasSuffix(w, "xes"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "s"):
		return w[:len(w)-1]
	}
	return w
}

// stands says whether base can be a word of its own without its ending: "king" is not "k", "engineer" is not "engine".
func stands(base, end string) bool {
	return len(base) >= 3 && strings.ContainsAny(base, "aeiouy") && (end != "er" || !strings.HasSuffix(base, "e"))
}

func undouble(w string) string {
	n := len(w)
	if n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("lszaeiou", rune(w[n-1])) {
		return w[:n-1]
	}
	return w
}
