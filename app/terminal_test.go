package app

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// onTTY starts a command on a terminal; the channel gives its end.
func (s *shell) onTTY(in io.Reader, y *tty, interrupts <-chan struct{}, args ...string) <-chan told {
	done := make(chan told, 1)
	var out bytes.Buffer
	sh := Shell{Args: args, In: in, Out: &out, Err: y, Env: s.env, Interrupts: interrupts}
	go func() {
		code := sh.Run(s.t.Context(), s.ws...)
		done <- told{code, out.String(), y.String()}
	}()
	return done
}

func ended(t *testing.T, done <-chan told) told {
	t.Helper()
	select {
	case got := <-done:
		return got
	case <-time.After(3 * time.Minute):
		t.Fatal("the command does not end")
	}
	return told{}
}

// TestAsksOnATerminal: a question is put there, a wrong answer asked for again, the number of a choice stands for it.
func TestAsksOnATerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.env = append(s.env, "TERM=xterm")
	y := newTTY(80)
	done := s.onTTY(y, y, nil, "run", "approve")
	y.await(t, "\n> ", 1)
	io.WriteString(y.typed, "perhaps\n")
	y.await(t, "want true or false", 1)
	io.WriteString(y.typed, "\n")
	y.await(t, "not empty", 1)
	io.WriteString(y.typed, "2\r\n")
	got := ended(t, done)
	if got.code != 0 || !strings.Contains(got.out, `"approve": false`) {
		t.Error(got)
	}
	for _, want := range []string{"Go ahead?", "  1  yes", "  2  no", `"cost": 3`, "✓"} {
		if !strings.Contains(got.err, want) {
			t.Errorf("%q is not in %q", want, got.err)
		}
	}
	if strings.Contains(got.err, "Go ahead?\x1b[31m") {
		t.Errorf("a question colors the terminal: %q", got.err)
	}
}

// TestLeavesAQuestion: the end of input, or Ctrl-C, leaves the question open.
func TestLeavesAQuestion(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	y := newTTY(80)
	done := s.onTTY(y, y, nil, "run", "nco", "teacher")
	y.await(t, "\n> ", 1)
	y.typed.Close()
	if got := ended(t, done); got.code != exitWaiting || !strings.Contains(got.err, "answer it with: pawl runs answer") {
		t.Error(got)
	}
	y = newTTY(80)
	interrupts := make(chan struct{}, 2)
	done = s.onTTY(y, y, interrupts, "run", "nco", "teacher")
	y.await(t, "\n> ", 1)
	interrupts <- struct{}{}
	if got := ended(t, done); got.code != exitInterrupted || !strings.Contains(got.err, "go on with: pawl runs watch") {
		t.Error(got)
	}
}

// TestAnsweredElsewhere: a question that somebody else answers meanwhile is not waited for.
func TestAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	y := newTTY(80)
	done := s.onTTY(y, y, nil, "run", "approve", "--label", "a=b")
	y.await(t, "\n> ", 1)
	id := ids.FindString(y.String())
	show := s.want(0, "runs", "show", id).out
	question := ids.FindString(show[strings.Index(show, "\nquestion "):])
	s.want(0, "runs", "answer", id, question, "yes")
	if got := ended(t, done); got.code != 0 || !strings.Contains(got.out, "true") || !strings.Contains(got.err, "closed meanwhile") {
		t.Error(got)
	}
}

// TestNobodyToAsk: with --json, without a terminal on either side, nobody is asked.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	y := newTTY(80)
	if got := ended(t, s.onTTY(y, y, nil, "run", "approve", "--json")); got.code != exitWaiting {
		t.Error(got)
	}
	if got := ended(t, s.onTTY(strings.NewReader("yes\n"), y, nil, "run", "approve")); got.code != exitWaiting {
		t.Error(got)
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[mK]")

// TestLiveProgress: the status is one line that is drawn anew, never wider than the terminal, and gone at the end.
func TestLiveProgress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env     string
		columns int
		live    bool
		color   bool
	}{
		"color":    {"TERM=xterm", 100, true, true},
		"no color": {"NO_COLOR=1", 100, true, false},
		"narrow":   {"TERM=xterm", 24, true, true},
		"dumb":     {"TERM=dumb", 100, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			s.t = t
			s.env = append(s.env, "TERM=xterm", c.env, "PAWL_STORE=memory")
			y := newTTY(c.columns)
			got := ended(t, s.onTTY(y, y, nil, "run", "slow", "n=2", "ms=700"))
			if got.code != 0 {
				t.Fatal(got)
			}
			if live := strings.Contains(got.err, "\r\x1b[K"); live != c.live {
				t.Errorf("redrawn: %v, want %v: %q", live, c.live, got.err)
			}
			if color := regexp.MustCompile("\x1b\\[[0-9;]+m").MatchString(got.err); color != c.color {
				t.Errorf("colored: %v, want %v: %q", color, c.color, got.err)
			}
			if c.live && strings.Count(got.err, "work  ") < 3 {
				t.Errorf("the status moved too little: %q", got.err)
			}
			for _, drawn := range strings.Split(escapes.ReplaceAllString(got.err, ""), "\r") {
				if line, _, whole := strings.Cut(drawn, "\n"); !whole && cellsOf(line) > c.columns-1 {
					t.Errorf("a status of %d columns on %d: %q", cellsOf(line), c.columns, line)
				}
			}
			if last := got.err[strings.LastIndex(got.err, "\n")+1:]; last != "" && !strings.HasSuffix(last, "\x1b[K") {
				t.Errorf("the status stays: %q", last)
			}
		})
	}
}

// TestText: what is cut and cleaned for a terminal.
func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"short": "short", "exactly ten": "exactly t…", "世界世界世界": "世界世界…", "a\tb\nc": "a b c", "\x1b[31mred": "\uFFFD[31mred",
		"e\u0301\u0301\u0301 abcdefgh": "e\u0301\u0301\u0301 abcdefgh", "a\u202eb": "a\uFFFDb", "a\xffb": "a\uFFFDb", "1234567890": "1234567890",
	} {
		if got := oneLine(in, 10); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"plain-1.csv": "plain-1.csv", "": "''", "it's": `'it'\''s'`, "a b": "'a b'", "$HOME": "'$HOME'", "…": "…"} {
		if got := quoted(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	for in, want := range map[time.Duration]string{
		0: "0 ms", 1500 * time.Millisecond: "1.5 s", 90 * time.Second: "1m 30s", time.Hour: "1h", 49*time.Hour + time.Second: "2d 1h",
	} {
		if got := took(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
