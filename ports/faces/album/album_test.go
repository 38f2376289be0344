package album_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	photos "pawl/internal/album"
	"pawl/ports/faces"
	"pawl/ports/faces/album"
	"pawl/ports/faces/facestest"
)

// see stages a photograph in whose file it stands that a recognizer has seen this.
func see(t *testing.T, seen faces.Recognition) (faces.Recognizer, faces.Picture) {
	names, confidences := []string{}, []float64{}
	for _, f := range seen.Faces {
		names, confidences = append(names, f.Name), append(confidences, f.Confidence)
	}
	line, err := json.Marshal(map[string]any{
		"id": "1", "people": "Somebody", "recognized_people": names, "recognition_confidence": confidences, "unrecognized_faces": seen.Unknown,
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := photos.Load("staged", strings.NewReader(string(line)))
	if err != nil {
		t.Fatal(err)
	}
	return album.New(a), faces.Picture{URL: "album:1", Type: "image/jpeg"}
}

// elsewhere stages a picture that is in no album.
func elsewhere(url string) func(*testing.T) (faces.Recognizer, faces.Picture) {
	return func(*testing.T) (faces.Recognizer, faces.Picture) {
		return album.New(photos.Embedded()), faces.Picture{URL: url, Bytes: []byte("\xff\xd8\xff")}
	}
}

func TestLaw(t *testing.T) {
	facestest.Run(t, facestest.Bench{
		See:  see,
		Bare: true,
		Fail: map[string]func(*testing.T) (faces.Recognizer, faces.Picture){
			faces.CodePicture:                    elsewhere("album:no-such"),
			faces.CodePicture + " of the web":    elsewhere("https://a.example/solvay-1911.jpg"),
			faces.CodePicture + " of no address": elsewhere(""),
		},
	})
}

// TestDocumented: whoever is documented in a photograph of the album that is built in is there for certain, and it is said that this is
// no measurement.
func TestDocumented(t *testing.T) {
	t.Parallel()
	a := photos.Embedded()
	for _, p := range a.Photos() {
		got, err := album.New(a).Recognize(t.Context(), faces.Picture{URL: p.URL()})
		if err != nil || !got.Documented || got.Unknown != 0 || len(got.Faces) != len(p.People) {
			t.Fatalf("%s: %+v, %v", p.ID, got, err)
		}
		for i, f := range got.Faces {
			if f.Name != p.People[i] || f.Confidence != photos.Certain {
				t.Errorf("%s: %+v", p.ID, f)
			}
		}
	}
}

// TestRecognized: a file's recognizer is taken at its word, also where it is wrong or has seen one person twice.
func TestRecognized(t *testing.T) {
	t.Parallel()
	a, err := photos.Load("mine", strings.NewReader("id,people,recognized_people,recognition_confidence,unrecognized_faces\n"+
		"1,Ann|Bob,Cid|Bob|Bob,79.9|50|100,2\n2,Ann,,,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := album.New(a)
	for url, want := range map[string]faces.Recognition{
		"album:1": {Faces: []faces.Face{{Name: "Bob", Confidence: 100}, {Name: "Cid", Confidence: 79.9}, {Name: "Bob", Confidence: 50}}, Unknown: 2},
		"album:2": {Faces: []faces.Face{}, Unknown: 1},
	} {
		if got, err := r.Recognize(t.Context(), faces.Picture{URL: url, Type: "image/jpeg"}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
}
