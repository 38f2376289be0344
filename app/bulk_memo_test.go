package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pawl/workflows/nco"
)

// What was made of a text is remembered, but for failures and long texts, and never more than so many.
func TestMemo(t *testing.T) {
	calls := 0
	m := memo{code: func(_ context.Context, text string) (nco.Output, error) {
		calls++
		if text == "bad" {
			return nco.Output{}, errors.New("refused")
		}
		return nco.Output{Reason: text}, nil
	}}
	long := strings.Repeat("x", memoText+1)
	for i, text := range []string{"a", "a", "bad", "bad", long, long, "a"} {
		out, err := m.get(t.Context(), text)
		if (err != nil) != (text == "bad") || err == nil && out.Reason != text {
			t.Errorf("%d: %+v, %v", i, out, err)
		}
	}
	if calls != 5 {
		t.Errorf("%d calls, want 5", calls)
	}
	for i := range memoTexts + 10 {
		if _, err := m.get(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.made) > memoTexts {
		t.Errorf("%d texts are kept", len(m.made))
	}
}
