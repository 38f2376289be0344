package sqlite
import ("testing";"time";"path/filepath";"pawl/store")
func TestTmp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, Options{})
	must(t, s.Create(t.Context(), store.NewRun{ID: "a"}, store.NewRun{ID: "b"}))
	_, acks := startWriter(t, path, "a")
	n := 0
	acks.Scan()
	go func() { for acks.Scan() { n++ } }()
	rs, _, _ := s.Claim(t.Context(), store.Claim{Worker: "w", Run: "b", Max: 1, Hold: time.Hour})
	time.Sleep(500*time.Millisecond)
	t.Log("alone", n); n = 0
	for range 40 {
		start := time.Now()
		must(t, s.Apply(t.Context(), store.Change{Run: "b", Epoch: rs[0].Epoch, Row: []byte("x"), Add: []store.Row{{Stream: store.Step}}}))
		t.Log(time.Since(start), n)
	}
}
