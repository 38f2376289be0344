package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl/ports/faces/rekognition"
	"pawl/ports/fetch/web"
	"pawl/ports/imagesearch/brave"
	"pawl/workflows/visualdegrees"
)

// TestVisualDegreesSources: who searches and who recognizes must know of each other's pictures, and an album goes with its run.
func TestVisualDegreesSources(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ws = append(s.ws, VisualDegrees())
	for says, env := range map[string][]string{
		"nobody recognizes: configure faces.source":            {"PAWL_SEARCH_SOURCE=openverse"},
		"the album searches and rekognition recognizes":        {"PAWL_FACES_SOURCE=rekognition", "PAWL_FACES_REGION=us-east-1"},
		"an album knows nobody in the pictures that openverse": {"PAWL_SEARCH_SOURCE=openverse", "PAWL_FACES_SOURCE=album"},
		"openverse searches, and an album gives photographs":   {"PAWL_SEARCH_SOURCE=openverse", "PAWL_VISUALDEGREES_ALBUM=x.csv"},
	} {
		one := *s
		one.env = append(slices.Clone(s.env), env...)
		if got := one.run("run", "visualdegrees", "A", "B"); got.code == 0 || !strings.Contains(got.err, says) {
			t.Errorf("%v: %d %q, want %q", env, got.code, got.err, says)
		}
	}
	got := s.want(0, "run", "visualdegrees", "Marie Curie", "Winston Churchill")
	for _, says := range []string{"In the album, recognized by album.", "proven: Marie Curie – Albert Einstein, documented", "search 2/15"} {
		if !strings.Contains(got.out+got.err, says) {
			t.Errorf("%q is not in %s%s", says, got.err, got.out)
		}
	}
	put(t, s.dir, "album.csv", "id,people\nx-1,Ann|Bob\n")
	r := s.want(0, "run", "visualdegrees", "Ann", "Bob", "--album", s.dir+"/album.csv", "--json").last(t)
	var o visualdegrees.Output
	if err := json.Unmarshal(r.Run.Output, &o); err != nil || len(o.Edges) != 1 || o.Edges[0].BestEvidence.ImageURL != "album:x-1" || !o.Edges[0].Documented {
		t.Errorf("%s, %v", r.Run.Output, err)
	}
	s.want(exitUsage, "run", "visualdegrees", "Ann", "ann")
}

// TestVisualDegreesAlbumDecides: an album that is given, and the one that a run was begun with, are searched whoever else is configured.
func TestVisualDegreesAlbumDecides(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ws = append(s.ws, VisualDegrees())
	put(t, s.dir, "album.csv", "id,people\nx-1,Ann|Bob\n")
	var begun []string
	for _, album := range []string{"", s.dir + "/album.csv"} {
		args := []string{"run", "visualdegrees", "Marie Curie", "Albert Einstein", "--detach", "--json"}
		if album != "" {
			args = append(args, "--album", album)
		}
		begun = append(begun, s.want(0, args...).last(t).Run.ID)
	}
	for _, env := range [][]string{
		{"PAWL_SEARCH_BRAVE_KEY=k"},
		{"PAWL_FACES_SOURCE=rekognition", "PAWL_FACES_REGION=us-east-1"},
		{"PAWL_SEARCH_SOURCE=openverse", "PAWL_FACES_SOURCE=rekognition", "PAWL_FACES_REGION=us-east-1"},
	} {
		one := *s
		one.env = append(slices.Clone(s.env), env...)
		got := one.want(0, "run", "visualdegrees", "Ann", "Bob", "--album", s.dir+"/album.csv")
		if !strings.Contains(got.out+got.err, "In the album, recognized by album.") {
			t.Errorf("%v: %s%s", env, got.err, got.out)
		}
	}
	s.env = append(s.env, "PAWL_SEARCH_BRAVE_KEY=k", "PAWL_FACES_SOURCE=rekognition", "PAWL_FACES_REGION=us-east-1")
	s.want(0, "runs", "watch", begun[0])
	if got := s.run("runs", "watch", begun[1]); got.code == 0 || !strings.Contains(got.out+got.err, "frontier_exhausted") { // nobody of that name is in it
		t.Errorf("%d %s%s", got.code, got.err, got.out)
	}
}

// degreesWorld is the outside world of a search: it searches as Brave does, gives pictures, recognizes as Rekognition does, and counts.
type degreesWorld struct {
	*httptest.Server
	mu   sync.Mutex
	made map[string]int
	slow chan struct{} // told when the third picture is being recognized

	busy, most int // recognitions at once, now and at the most
}

// degreesChain are the people of the photographs 0, 1, 2 …, each of which shows two neighbors.
var degreesChain = []string{"Ann", "Bob", "Cid", "Dan", "Eve"}

func newDegreesWorld(t *testing.T) *degreesWorld {
	w := &degreesWorld{made: map[string]int{}, slow: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /res/v1/images/search", func(rw http.ResponseWriter, r *http.Request) {
		q := r.URL.Query().Get("q")
		w.count("search " + q)
		results := []map[string]any{}
		for i := range degreesChain[1:] {
			if strings.Contains(q, degreesChain[i]) || strings.Contains(q, degreesChain[i+1]) {
				url := fmt.Sprintf("%s/%d.png", w.URL, i)
				results = append(results, map[string]any{"title": "x", "url": w.URL + "/page", "thumbnail": map[string]string{"src": url}, "properties": map[string]string{"url": url}})
			}
		}
		_ = json.NewEncoder(rw).Encode(map[string]any{"type": "images", "results": results})
	})
	mux.HandleFunc("GET /{photo}", func(rw http.ResponseWriter, r *http.Request) {
		var n uint8
		_, _ = fmt.Sscan(strings.TrimSuffix(r.PathValue("photo"), ".png"), &n)
		img := image.NewGray(image.Rect(0, 0, 100, 100))
		img.SetGray(0, 0, color.Gray{Y: n})
		_ = png.Encode(rw, img)
	})
	mux.HandleFunc("POST /", func(rw http.ResponseWriter, r *http.Request) {
		var in struct{ Image struct{ Bytes string } }
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &in); err != nil || r.Header.Get("X-Amz-Target") != "RekognitionService.RecognizeCelebrities" {
			http.Error(rw, `{"__type":"InvalidParameterException"}`, http.StatusBadRequest)
			return
		}
		raw, _ := base64.StdEncoding.DecodeString(in.Image.Bytes)
		img, err := png.Decode(bytes.NewReader(raw))
		if err != nil {
			http.Error(rw, `{"__type":"InvalidImageFormatException"}`, http.StatusBadRequest)
			return
		}
		w.recognizes(1)
		defer w.recognizes(-1)
		time.Sleep(60 * time.Millisecond) // long enough for others to come meanwhile
		n := int(img.At(0, 0).(color.Gray).Y)
		if w.count(fmt.Sprint("look ", n)) == 3 {
			close(w.slow)
			time.Sleep(500 * time.Millisecond) // who asked dies meanwhile
		}
		faces := []map[string]any{}
		for _, name := range degreesChain[n : n+2] {
			faces = append(faces, map[string]any{"Name": name, "Id": name, "MatchConfidence": 95.5, "Face": map[string]any{"Confidence": 99.9, "BoundingBox": map[string]float64{"Left": 0.1, "Top": 0.1, "Width": 0.2, "Height": 0.2}}})
		}
		rw.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_ = json.NewEncoder(rw).Encode(map[string]any{"CelebrityFaces": faces, "UnrecognizedFaces": []any{}})
	})
	w.Server = httptest.NewServer(mux)
	t.Cleanup(w.Close)
	return w
}

func (w *degreesWorld) recognizes(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy += n
	w.most = max(w.most, w.busy)
}

// count notes a call, and says the how manieth recognition it is.
func (w *degreesWorld) count(call string) (looks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made[call]++
	for c, n := range w.made {
		if strings.HasPrefix(c, "look ") {
			looks += n
		}
	}
	return looks
}

// degreesUnder is the workflow with its vendors at an address of this machine.
func degreesUnder(url string) Workflow {
	w := VisualDegrees()
	w.Options = nil
	w.Open = func(ctx context.Context, _ Opening) (*Opened, error) {
		eyes := web.New(web.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: everyPort()})
		faces, err := rekognition.New(ctx, rekognition.Config{Region: "us-east-1", KeyID: "k", Secret: "s", URL: url, Room: eyes.Room})
		if err != nil {
			return nil, err
		}
		built, err := visualdegrees.Graph(visualdegrees.Agent{Search: brave.New(brave.Config{URL: url, Key: "k"}), Fetch: eyes, Faces: faces}).Build()
		return &Opened{Workflow: built}, err
	}
	return w
}

func everyPort() (all []uint16) {
	for p := range 1 << 16 {
		all = append(all, uint16(p))
	}
	return all
}

const degreesTestURL = "DEGREES_TEST_URL"

// TestFaultVisualDegreesKilled: kill -9 in the middle of a recognition, and another process goes on. No search and no recognition that had
// ended is made again; the one that was under way is.
func TestFaultVisualDegreesKilled(t *testing.T) {
	t.Parallel()
	world := newDegreesWorld(t)
	s := newShell(t)
	s.env = append(s.env, degreesTestURL+"="+world.URL)
	p := s.start("run", "visualdegrees", "Ann", "Eve", "--json", "--key", "k")
	select {
	case <-world.slow:
	case <-time.After(time.Minute):
		t.Fatal(p.out.String(), p.err.String())
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
	var first struct{ Run string }
	line, _, _ := strings.Cut(p.out.String(), "\n")
	if err := json.Unmarshal([]byte(line), &first); err != nil || first.Run == "" {
		t.Fatalf("%v: %s", err, line)
	}
	s.ws = append(s.ws, degreesUnder(world.URL))
	r := s.want(0, "runs", "watch", first.Run, "--json").last(t)
	var o visualdegrees.Output
	if err := json.Unmarshal(r.Run.Output, &o); err != nil || fmt.Sprint(o.Path) != fmt.Sprint(degreesChain) {
		t.Fatalf("%s, %v", r.Run.Output, err)
	}
	again := 0
	for call, n := range world.made {
		if n > 2 || n == 2 && strings.HasPrefix(call, "search") {
			t.Errorf("%s was made %d times", call, n)
		}
		if n == 2 {
			again++
		}
	}
	if again != 1 || len(world.made) < 5 {
		t.Errorf("%d calls were made twice: %v", again, world.made)
	}
}

// TestCase54SharedLimit: a limit of recognitions holds over all workers, whatever process they are in; without one they recognize side by
// side.
func TestCase54SharedLimit(t *testing.T) {
	t.Parallel()
	for _, limits := range []string{"recognition=:1", "recognition=:2", ""} {
		world := newDegreesWorld(t)
		s := newShell(t)
		s.env = append(s.env, degreesTestURL+"="+world.URL)
		s.ws = append(s.ws, degreesUnder(world.URL))
		for range 6 {
			s.want(0, "run", "visualdegrees", "Ann", "Eve", "--detach", "--json")
		}
		var workers []*process
		for range 3 {
			args := []string{"work", "--slots", "2"}
			if limits != "" {
				args = append(args, "--limits", limits)
			}
			workers = append(workers, s.start(args...))
		}
		for end := time.Now().Add(3 * time.Minute); strings.Count(s.want(0, "runs", "ls", "--json", "--status", "succeeded").out, "\n") < 6; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(workers[0].err.String())
			}
		}
		for _, p := range workers {
			_ = p.Process.Kill()
			<-p.done
		}
		world.mu.Lock()
		most, looks := world.most, 0
		for call, n := range world.made {
			if strings.HasPrefix(call, "look ") {
				looks += n
			}
		}
		world.mu.Unlock()
		if bound := map[string]int{"recognition=:1": 1, "recognition=:2": 2, "": 6}[limits]; most > bound || limits == "" && most < 2 || looks != 6*4 {
			t.Errorf("limits %q: %d recognitions, at most %d at once", limits, looks, most)
		}
	}
}
