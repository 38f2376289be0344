//go:build unix

package faults

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFaultPaused stops a worker in the middle for more than two leases and lets it go on: another one has its runs by then, and
// what the first one writes is refused. Where it sees first how late it is, it throws that away itself.
func TestFaultPaused(t *testing.T) {
	t.Parallel()
	want := &calm{}
	onGrounds(t, func(t *testing.T, address func(*testing.T) string) {
		refused, invalid, pauses := 0, 0, number("FAULTS_PAUSES", 8)
		for valid := 0; valid < pauses && invalid < 4*pauses; {
			n, overtaken := pausedOnce(newSite(t, address(t), want))
			if refused += n; overtaken {
				valid++
			} else { // the slower the machine, the more of its time it stands inside a transaction
				invalid++
			}
		}
		t.Logf("%d pauses, %d times what the old workers did was refused or thrown away; %d more in which nobody could take over", pauses, refused, invalid)
		if invalid >= 4*pauses {
			t.Error("too many pauses inside a transaction")
		}
		if refused == 0 {
			t.Error("no old worker has heard of it")
		}
	})
}

// pausedOnce stops a worker once; it says how many of its writes were refused, and whether another one had its runs before it went on.
func pausedOnce(s *site) (refused int, overtaken bool) {
	s.start(4)
	p := s.worker(s.address)
	s.soon("runs are held", func() bool { return s.held() > 0 })
	time.Sleep(10 * time.Millisecond)
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		s.Fatal(err)
	}
	time.Sleep(2*Short + Short/4)
	other := s.worker(s.address)
	for range 200 { // one that stands still inside a transaction keeps others from writing, on SQLite all of them
		if overtaken = s.overtaken(); overtaken {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		s.Fatal(err)
	}
	s.soon("all runs end", func() bool { return !s.live() })
	time.Sleep(Short / 2) // the old one hears of it
	refused = strings.Count(p.says(), "refused")
	p.kill()
	other.kill()
	s.check()
	return refused, overtaken
}

// overtaken reports whether another worker holds a run, or all have ended.
func (s *site) overtaken() bool { return s.held() > 0 || !s.live() }
