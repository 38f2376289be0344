package rekognition_test

import (
	"bytes"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pawl"
	"pawl/ports/faces"
	"pawl/ports/faces/facestest"
	"pawl/ports/faces/rekognition"
)

// drawn is a picture of some size.
func drawn(w, h int) *image.Gray {
	m := image.NewGray(image.Rect(0, 0, w, h))
	for i := range m.Pix {
		m.Pix[i] = byte(i % 251)
	}
	return m
}

func asJPEG(t *testing.T, m image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := jpeg.Encode(&out, m, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func photo(t *testing.T) faces.Picture {
	return faces.Picture{URL: "https://x.org/a.jpg", Type: "image/jpeg", Bytes: asJPEG(t, drawn(200, 100))}
}

// playing is a service that answers everything so, whatever is shown to it.
func playing(scene http.HandlerFunc) func(*testing.T) (faces.Recognizer, faces.Picture) {
	return func(t *testing.T) (faces.Recognizer, faces.Picture) {
		s := serve(t)
		s.scene = scene
		return s.open(t), photo(t)
	}
}

func refusing(status int, kind, message string) func(*testing.T) (faces.Recognizer, faces.Picture) {
	return playing(func(w http.ResponseWriter, _ *http.Request) { refuse(w, status, kind, message) })
}

func page(status int) func(*testing.T) (faces.Recognizer, faces.Picture) {
	return playing(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<!doctype html>\n<title>Sign in</title> as "+session)
	})
}

func answering(body string) func(*testing.T) (faces.Recognizer, faces.Picture) {
	return playing(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
}

// showing is a picture that is refused before anybody is asked.
func showing(raw func(t *testing.T) []byte) func(*testing.T) (faces.Recognizer, faces.Picture) {
	return func(t *testing.T) (faces.Recognizer, faces.Picture) {
		s := serve(t)
		s.scene = func(http.ResponseWriter, *http.Request) { t.Error("the service was asked") }
		return s.open(t), faces.Picture{Bytes: raw(t)}
	}
}

// TestLaw: who is named, and how sure that is, is RecognizeCelebrities' Name and MatchConfidence (R-000-03); the service here is as sure of each
// face as can be.
func TestLaw(t *testing.T) {
	t.Parallel()
	facestest.Run(t, facestest.Bench{
		See: func(t *testing.T, seen faces.Recognition) (faces.Recognizer, faces.Picture) {
			s := serve(t)
			s.answer = said(seen)
			return s.open(t), photo(t)
		},
		Secret: "canary",
		Fail: map[string]func(*testing.T) (faces.Recognizer, faces.Picture){
			faces.CodeTooLarge + " said":            refusing(400, "ImageTooLargeException", "Image size is too large"),
			faces.CodeTooLarge + " 413":             page(413),
			faces.CodeType + " said":                refusing(400, "InvalidImageFormatException", "Request has invalid image format"),
			faces.CodePicture + " said":             refusing(400, "InvalidParameterException", "Request has invalid parameters"),
			faces.CodeRateLimited + " provisioned":  refusing(400, "ProvisionedThroughputExceededException", "Provisioned rate exceeded"),
			faces.CodeRateLimited + " throttled":    refusing(400, "com.amazonaws.rekognition#ThrottlingException", "Slow down"),
			faces.CodeRateLimited + " jobs":         refusing(400, "LimitExceededException", "Too many open jobs"),
			faces.CodeRateLimited + " page":         page(429),
			pawl.CodeUnavailable + " internal":      refusing(500, "InternalServerError", "Internal\r\nserver error"),
			pawl.CodeUnavailable + " new":           refusing(503, "SomethingNewException", "?"),
			pawl.CodeUnavailable + " page":          page(502),
			pawl.CodeUnavailable + " page as 200":   page(200),
			pawl.CodeUnavailable + " moved":         page(307),
			pawl.CodeForbidden + " access":          refusing(400, "AccessDeniedException", "User is not authorized with "+session),
			pawl.CodeForbidden + " key":             refusing(400, "UnrecognizedClientException", "The security token included in the request is invalid."),
			pawl.CodeForbidden + " signature":       refusing(400, "InvalidSignatureException", "The request signature "+secret+" does not match"),
			pawl.CodeForbidden + " expired":         refusing(400, "ExpiredTokenException", "The security token is expired"),
			pawl.CodeForbidden + " page":            page(403),
			pawl.CodeInvalid + " new":               refusing(400, "ValidationException", "1 validation error detected"),
			pawl.CodeTimeout + " page":              page(504),
			pawl.CodeUnavailable + " no confidence": answering(`{"CelebrityFaces":[{"Name":"A","Face":{"Confidence":99}}]}`),
			pawl.CodeUnavailable + " NaN":           answering(`{"CelebrityFaces":[{"Name":"A","MatchConfidence":"NaN"}]}`),
			pawl.CodeUnavailable + " infinite":      answering(`{"CelebrityFaces":[{"Name":"A","MatchConfidence":"Infinity"}]}`),
			pawl.CodeUnavailable + " more than all": answering(`{"CelebrityFaces":[{"Name":"A","MatchConfidence":100.01}]}`),
			pawl.CodeUnavailable + " less than no":  answering(`{"CelebrityFaces":[{"Name":"A","MatchConfidence":-0.5}]}`),
			pawl.CodeUnavailable + " wrong types":   answering(`{"CelebrityFaces":{"Name":7}}`),
			pawl.CodeUnavailable + " half":          answering(`{"CelebrityFaces":[{"Name":"A","Match`),
			pawl.CodeUnavailable + " cut": playing(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				_, _ = io.WriteString(w, `{"CelebrityFaces":[]`)
				panic(http.ErrAbortHandler)
			}),
			pawl.CodeUnavailable + " flood": playing(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"CelebrityFaces":"`)
				for block := bytes.Repeat([]byte("x"), 1<<20); ; {
					if _, err := w.Write(block); err != nil {
						return
					}
				}
			}),
			pawl.CodeUnavailable + " nobody": func(t *testing.T) (faces.Recognizer, faces.Picture) {
				s := serve(t)
				s.Close()
				return s.open(t), photo(t)
			},
			pawl.CodeTimeout + " silent": func(t *testing.T) (faces.Recognizer, faces.Picture) {
				s := serve(t)
				s.scene = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
				c := s.config()
				c.Within = 50 * time.Millisecond
				r, err := rekognition.New(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				return r, photo(t)
			},
			faces.CodeTooSmall + " 79":   showing(func(t *testing.T) []byte { return asJPEG(t, drawn(79, 300)) }),
			faces.CodeTooSmall + " high": showing(func(t *testing.T) []byte { return asJPEG(t, drawn(300, 79)) }),
			faces.CodeType + " page":     showing(func(*testing.T) []byte { return []byte("<!doctype html><html><body>Not found</body></html>") }),
			faces.CodeType + " svg":      showing(func(*testing.T) []byte { return []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`) }),
			faces.CodeCorrupt + " none":  showing(func(*testing.T) []byte { return nil }),
			faces.CodeCorrupt + " half": showing(func(t *testing.T) []byte {
				raw := asJPEG(t, drawn(200, 100))
				return raw[:len(raw)/10]
			}),
		},
	})
}

// TestCase54RecognizerLimits: limits are checked before the call, and what can be made to fit is; one call is one request, whatever is
// answered.
func TestCase54RecognizerLimits(t *testing.T) {
	t.Parallel()
	s := serve(t)
	r := s.open(t)
	var asGIF, asPNG bytes.Buffer
	if err := gif.Encode(&asGIF, drawn(300, 200), nil); err != nil {
		t.Fatal(err)
	}
	noise := image.NewRGBA(image.Rect(0, 0, 1150, 1150))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise.Pix {
		noise.Pix[i] = byte(random.Uint32())
	}
	if err := png.Encode(&asPNG, noise); err != nil || asPNG.Len() <= 5<<20 {
		t.Fatalf("%d bytes, %v", asPNG.Len(), err)
	}
	for name, c := range map[string]struct {
		raw  []byte
		kept bool
	}{
		"80 pixels":         {asJPEG(t, drawn(80, 80)), true},
		"10,000 pixels":     {asJPEG(t, drawn(10_000, 90)), true},
		"10,001 pixels":     {asJPEG(t, drawn(10_001, 90)), false},
		"10,800 pixels":     {asJPEG(t, drawn(10_800, 200)), false},
		"a GIF":             {asGIF.Bytes(), false},
		"5.1 MB":            {padded(t, 5_347_738), false},
		"5,242,880 bytes":   {padded(t, 5_242_880), true},
		"a PNG beyond 5 MB": {asPNG.Bytes(), false},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.asked
			p, err := faces.Fit(t.Context(), r, faces.Picture{URL: "u", Type: "image/webp", Bytes: c.raw})
			if err != nil || s.asked != before || p.URL != "u" || p.Type != "image/jpeg" && p.Type != "image/png" {
				t.Fatalf("%+.50v, %v", p, err)
			}
			if _, err := r.Recognize(t.Context(), faces.Picture{Bytes: c.raw}); err != nil {
				t.Error(err)
			}
			if bytes.Equal(s.sent, c.raw) != c.kept || len(s.sent) > 5<<20 || s.asked != before+1 {
				t.Errorf("%d bytes were sent for %d in %d requests", len(s.sent), len(c.raw), s.asked-before)
			}
		})
	}
	before := s.asked
	_, err := r.Recognize(t.Context(), faces.Picture{Bytes: asJPEG(t, drawn(20_000, 100))}) // made to fit, it would be 50 pixels high
	if faces.Code(err) != faces.CodeTooLarge || faces.RemedyOf(err) != faces.Skip || s.asked != before {
		t.Errorf("a strip: %v, %d requests", err, s.asked-before)
	}
	for _, kind := range []string{"ThrottlingException", "ProvisionedThroughputExceededException", "InternalServerError", "InvalidImageFormatException"} {
		s.scene = func(w http.ResponseWriter, _ *http.Request) { refuse(w, 400, kind, "") }
		before := s.asked
		if _, err := r.Recognize(t.Context(), photo(t)); err == nil || s.asked != before+1 {
			t.Errorf("%s: %d requests, %v", kind, s.asked-before, err)
		}
	}
}

// padded is a JPEG of so many bytes.
func padded(t *testing.T, size int) []byte {
	t.Helper()
	raw := asJPEG(t, drawn(200, 100))
	var out bytes.Buffer
	out.Write(raw[:2])
	for left := size - len(raw); left > 0; {
		n := min(left, 65_537) // a comment: FF FE, two bytes of its length, the text
		if left-n > 0 && left-n < 4 {
			n -= 4
		}
		out.Write([]byte{0xff, 0xfe, byte((n - 2) >> 8), byte(n - 2)})
		out.Write(make([]byte, n-4))
		left -= n
	}
	out.Write(raw[2:])
	if out.Len() != size {
		t.Fatalf("%d bytes", out.Len())
	}
	return out.Bytes()
}

// TestAnswer: what is not told is left out, and nothing is made up for it.
func TestAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t)
	r := s.open(t)
	for body, want := range map[string]string{
		`{}`: "{Faces:[] Unknown:0 Documented:false}",
		`{"CelebrityFaces":null,"UnrecognizedFaces":null,"New":{"a":[1]}}`:                                                          "{Faces:[] Unknown:0 Documented:false}",
		`{"CelebrityFaces":[{"MatchConfidence":99},{"Name":" \t","MatchConfidence":99}],"UnrecognizedFaces":[{}]}`:                  "{Faces:[] Unknown:3 Documented:false}",
		`{"CelebrityFaces":[{"Name":" A ","MatchConfidence":99.9,"Face":{"BoundingBox":{"Left":0.1}}}]}`:                            "{Faces:[{Name:A Confidence:99.9 Box:<nil> URLs:[]}] Unknown:0 Documented:false}",
		`{"CelebrityFaces":[{"Name":"A","MatchConfidence":1,"Face":{"BoundingBox":{"Left":"NaN","Top":0,"Width":0,"Height":0}}}]}`:  "{Faces:[{Name:A Confidence:1 Box:<nil> URLs:[]}] Unknown:0 Documented:false}",
		`{"CelebrityFaces":[{"Name":"B","MatchConfidence":5},{"Name":"A","MatchConfidence":5},{"Name":"C","MatchConfidence":5.5}]}`: "{Faces:[{Name:C Confidence:5.5 Box:<nil> URLs:[]} {Name:A Confidence:5 Box:<nil> URLs:[]} {Name:B Confidence:5 Box:<nil> URLs:[]}] Unknown:0 Documented:false}",
	} {
		s.answer = body
		got, err := r.Recognize(t.Context(), photo(t))
		if shown := fmt.Sprintf("%+v", got); err != nil || shown != want {
			t.Errorf("%s:\n%s, %v\n%s", body, shown, err, want)
		}
	}
}

// TestFound: region and key are found as the SDK finds them, and what is missing is said before, or without, a call.
func TestFound(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "credentials"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	s := serve(t)
	if _, err := rekognition.New(t.Context(), rekognition.Config{URL: s.URL}); faces.Code(err) != faces.CodeUnset || faces.RemedyOf(err) != faces.Park {
		t.Errorf("without a region: %v", err)
	}
	t.Setenv("AWS_REGION", region)
	r, err := rekognition.New(t.Context(), rekognition.Config{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Recognize(t.Context(), photo(t)); faces.Code(err) != faces.CodeUnset || s.asked != 0 {
		t.Errorf("without a key: %v, asked %d times", err, s.asked)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", keyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	t.Setenv("AWS_SESSION_TOKEN", session)
	if r, err = rekognition.New(t.Context(), rekognition.Config{URL: s.URL}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Recognize(t.Context(), photo(t)); err != nil || s.asked != 1 {
		t.Errorf("%v, asked %d times", err, s.asked)
	}
	s.scene = func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, 400, "AccessDeniedException", "with "+secret+" and "+session)
	}
	if _, err := r.Recognize(t.Context(), photo(t)); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("a key that was found is told: %v", err)
	}
	if shown := fmt.Sprintf("%v %+v %#v %+v", r, r, r, s.open(t)); strings.Contains(shown, "canary") {
		t.Errorf("a recognizer that is printed tells the key: %s", shown)
	}
}
