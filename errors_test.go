package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"pawl"
)

// TestErrorsComeBackFromTheRecord: what a recorded error keeps, it keeps for every question that is asked of it.
func TestErrorsComeBackFromTheRecord(t *testing.T) {
	spent := &pawl.BudgetError{Meter: "llm", Used: 3, Cap: 3}
	child := &pawl.RunError{Run: "r", Status: pawl.StatusFailed, Terminal: "FAILED", Code: "own", Text: "child: x", Budget: spent}
	for name, err := range map[string]error{
		"plain":              errOut,
		"coded":              &pawl.Error{Code: "own", Op: "start", Run: "r", Node: "n", Text: "text"},
		"coded inside":       fmt.Errorf("x: %w", &pawl.Error{Code: pawl.CodeForbidden, Node: "n"}),
		"no code":            &pawl.Error{Text: "x"},
		"no code, a budget":  &pawl.Error{Text: "x", Err: spent},
		"budget":             fmt.Errorf("x: %w", spent),
		"child":              child,
		"permanent":          pawl.Permanent(errOut),
		"tried":              pawl.Tried(pawl.RetryAfter(errOut, time.Second)),
		"retry after":        fmt.Errorf("x: %w", pawl.RetryAfter(errOut, 1500*time.Millisecond)),
		"joined marks":       errors.Join(pawl.RetryAfter(errOut, time.Second), pawl.RetryAfter(errOut, 3*time.Second)),
		"joined, permanent":  errors.Join(pawl.RetryAfter(errOut, time.Second), pawl.Permanent(errOut)),
		"forbidden and late": pawl.RetryAfter(&pawl.Error{Code: pawl.CodeForbidden}, time.Second),
		"nobody answered":    fmt.Errorf("x: %w", pawl.ErrDeadline),
		"out of time":        context.DeadlineExceeded,
		"not UTF-8":          errors.New("\xff"),
	} {
		b, merr := json.Marshal(pawl.Coded(err))
		if merr != nil {
			t.Fatal(name, merr)
		}
		back := new(pawl.Error)
		if err := json.Unmarshal(b, back); err != nil {
			t.Fatal(name, err)
		}
		if name != "not UTF-8" && back.Error() != err.Error() || back.Code != pawl.Coded(err).Code || back.Code == "" {
			t.Errorf("%s: %q %q became %q %q", name, pawl.Coded(err).Code, err, back.Code, back)
		}
		a1, ok1 := pawl.Retryable(err)
		a2, ok2 := pawl.Retryable(back)
		if ok1 != ok2 || ok1 && a1 != a2 {
			t.Errorf("%s: retryable %v after %s became %v after %s", name, ok1, a1, ok2, a2)
		}
		_, m1 := pawl.IsBudget(0, err)
		_, m2 := pawl.IsBudget(0, error(back))
		var r1, r2 *pawl.RunError
		if m1 != m2 || errors.As(err, &r1) != errors.As(back, &r2) || errors.Is(err, pawl.ErrDeadline) != errors.Is(back, pawl.ErrDeadline) {
			t.Errorf("%s: budget %v %v, child %v %v", name, m1, m2, r1, r2)
		}
		again, merr := json.Marshal(back)
		if merr != nil || string(again) != string(b) {
			t.Errorf("%s: %s became %s, %v", name, b, again, merr)
		}
	}
	if pawl.Coded(nil) != nil || pawl.Permanent(nil) != nil || pawl.Tried(nil) != nil || pawl.RetryAfter(nil, 1) != nil {
		t.Error("no error became one")
	}
}

func TestUSD(t *testing.T) {
	for in, want := range map[pawl.USD]string{0: "$0.00", 12500: "$0.0125", 5_000_000: "$5.00", 1: "$0.000001", pawl.Dollars(0.1) + pawl.Dollars(0.2): "$0.30", pawl.Dollars(-1.5): "$-1.50"} {
		if in.String() != want {
			t.Errorf("%d: %s, want %s", int64(in), in, want)
		}
	}
}
