package brain

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheHowToQuotesTheExample: every line of Go in the how-to stands in the example, which runs.
func TestTheHowToQuotesTheExample(t *testing.T) {
	doc, err := os.ReadFile("../../docs/how-to/brain.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(doc), -1) {
		for l := range strings.Lines(block[1]) {
			if lines++; !strings.Contains(string(example), strings.TrimSpace(l)+"\n") {
				t.Errorf("the example has no line %q", l)
			}
		}
	}
	if lines < 9 {
		t.Errorf("%d lines are quoted", lines)
	}
}
