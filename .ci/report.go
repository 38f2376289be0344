// Command report reads the JSON of `go test -json`, from several runs one after the other, and prints what a person wants
// to see: a line a package, the output of what failed, every skipped test with its reason, and the sums as the last line.
//
// It never changes an outcome: it fails when a test failed or a run broke off, and, with CI=true, when a test was skipped
// that this machine could have run.
//
// Start reading at main, then unavoidable.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// unavoidable are the reasons for which a test may be skipped, after its package and name, and what must then be so on
// this machine.
var unavoidable = []struct {
	reason *regexp.Regexp
	is     func(match []string) bool
}{
	{regexp.MustCompile(`running as root`), func([]string) bool { return os.Getuid() == 0 }},
	{regexp.MustCompile(`shared (test )?data`), func([]string) bool { _, err := os.Stat("../shared/data"); return err != nil }},
	{regexp.MustCompile(`not installed: (\S+)`), func(m []string) bool { _, err := exec.LookPath(m[1]); return err != nil }},
	{regexp.MustCompile(`^pawl/store/memory .*this store has no such thing`), func([]string) bool { return true }}, // it outlives no process
	{regexp.MustCompile(`needs (linux|darwin|windows)`), func(m []string) bool { return m[1] != runtime.GOOS }},
}

// event is a line of go test -json, or one of the two that test.sh writes: section and exit.
type event struct {
	Action, Package, ImportPath, Test, Output string
	FailedBuild                               string
	Elapsed                                   float64
}

type report struct {
	output                  map[string][]string // of each test that runs, and of each build
	passed, failed, skipped int
	inPackage               map[string]int
	skips, avoidable        []string
	section                 string
	since                   time.Time
	failedBefore            int
	took                    []spell
}

// spell is how long a test took.
type spell struct {
	test    string
	seconds float64
}

const slow = 12 // tests are named at the end of each section

func main() {
	r := &report{output: map[string][]string{}, inPackage: map[string]int{}, since: time.Now()}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil && e.Action != "" {
			r.read(e)
		} else if text := strings.TrimSpace(string(line)); text != "" {
			fmt.Println(text)
		}
		if err != nil {
			break
		}
	}
	os.Exit(r.end())
}

func (r *report) read(e event) {
	switch {
	case e.Action == "section":
		r.section, r.since, r.failedBefore, r.took = e.Output, time.Now(), r.failed, nil
		fmt.Printf("\n== %s\n", e.Output)
	case e.Action == "exit":
		if e.Output != "0" && r.failed == r.failedBefore {
			r.failed++
			fmt.Printf("FAIL go test broke off with status %s\n", e.Output)
		}
		r.slowest()
		fmt.Printf("== %s: %s\n", r.section, time.Since(r.since).Round(100*time.Millisecond))
	case e.Action == "build-output":
		r.output[e.ImportPath] = append(r.output[e.ImportPath], e.Output)
	case e.Action == "output":
		key := e.Package + " " + e.Test
		r.output[key] = append(r.output[key], e.Output)
	case e.Test != "":
		r.test(e)
	case e.Action == "pass", e.Action == "fail", e.Action == "skip":
		r.packet(e)
	}
}

// test counts the end of one test.
func (r *report) test(e event) {
	key := e.Package + " " + e.Test
	text := r.output[key]
	switch e.Action {
	case "pass":
		r.passed++
		r.inPackage[e.Package]++
	case "fail":
		r.failed++
		fmt.Printf("FAIL %s\n%s", key, strings.Join(text, ""))
	case "skip":
		r.skipped++
		skip := key + ": " + why(text)
		r.skips = append(r.skips, skip)
		if !may(skip) {
			r.avoidable = append(r.avoidable, skip)
		}
	default:
		return
	}
	if !strings.Contains(e.Test, "/") {
		r.took = append(r.took, spell{key, e.Elapsed})
	}
	delete(r.output, key)
}

// slowest says where a section's time went.
func (r *report) slowest() {
	slices.SortFunc(r.took, func(a, b spell) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Println("-- slowest")
	for _, s := range r.took[:min(slow, len(r.took))] {
		fmt.Printf("%7.1fs %s\n", s.seconds, s.test)
	}
}

// packet prints the end of one package.
func (r *report) packet(e event) {
	key := e.Package + " "
	took := fmt.Sprintf("%.1fs", e.Elapsed)
	switch e.Action {
	case "pass":
		fmt.Printf("ok   %-40s %7s  %d tests\n", e.Package, took, r.inPackage[e.Package])
	case "skip":
		fmt.Printf("-    %-40s %7s  no tests\n", e.Package, "")
	case "fail":
		if r.failed == r.failedBefore || e.FailedBuild != "" {
			r.failed++
		}
		fmt.Printf("FAIL %-40s %7s\n%s%s", e.Package, took, strings.Join(r.output[e.FailedBuild], ""), strings.Join(r.output[key], ""))
		for left, text := range r.output { // what was running when the process died
			if strings.HasPrefix(left, key) && left != key {
				fmt.Printf("unfinished: %s\n%s", left, strings.Join(text, ""))
			}
		}
	}
	for key := range r.output { // those of other packages are still running
		if strings.HasPrefix(key, e.Package+" ") {
			delete(r.output, key)
		}
	}
	r.inPackage[e.Package] = 0
}

var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// why is the reason that a skipped test gave.
func why(output []string) string {
	var words []string
	for _, line := range output {
		if text := strings.TrimSpace(place.ReplaceAllString(line, "")); text != "" && !strings.HasPrefix(text, "=== ") && !strings.HasPrefix(text, "--- ") {
			words = append(words, text)
		}
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}

// may reports whether a skip could not be avoided.
func may(skip string) bool {
	for _, u := range unavoidable {
		if m := u.reason.FindStringSubmatch(skip); m != nil && u.is(m) {
			return true
		}
	}
	return false
}

func (r *report) end() int {
	fmt.Println()
	slices.Sort(r.skips)
	for _, s := range r.skips {
		fmt.Println("skipped:", s)
	}
	for _, s := range r.avoidable {
		fmt.Println("this machine could have run:", s)
	}
	if r.passed == 0 {
		fmt.Println("no test ran")
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if r.failed > 0 || r.passed == 0 || len(r.avoidable) > 0 && os.Getenv("CI") == "true" {
		return 1
	}
	return 0
}
