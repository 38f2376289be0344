package rules

import (
	"strconv"
	"strings"
)

// JoinKinds makes one text of the kinds that a worker serves: quoted, one after the other, so that any name survives.
func JoinKinds(kinds []string) string {
	var b strings.Builder
	for _, k := range kinds {
		b.WriteString(strconv.Quote(k))
	}
	return b.String()
}

// SplitKinds takes it apart again. What is damaged ends it.
func SplitKinds(s string) (kinds []string) {
	for s != "" {
		q, err := strconv.QuotedPrefix(s)
		if err != nil {
			return kinds
		}
		k, _ := strconv.Unquote(q)
		kinds, s = append(kinds, k), s[len(q):]
	}
	return kinds
}
