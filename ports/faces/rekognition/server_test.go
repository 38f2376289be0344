package rekognition_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"pawl/ports/faces"
	"pawl/ports/faces/rekognition"
)

// What follows is Amazon's side, written from https://docs.aws.amazon.com/rekognition/latest/APIReference/API_RecognizeCelebrities.html,
// https://docs.aws.amazon.com/rekognition/latest/dg/limits.html, https://smithy.io/2.0/aws/protocols/aws-json-1_1-protocol.html and
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html: what is not described there is a fault
// of the client.

const (
	region  = "eu-central-1"
	keyID   = "AKIDEXAMPLE000000001"
	secret  = "canary/+3f7a9b1c5d7e9f1a3b5c7d9e1f3a"
	session = "canary-session/+0a1b2c3d4e5f6a7b"
)

type doc = map[string]any

// theirs is the service in a region.
type theirs struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	answer string           // to a picture that is taken
	scene  http.HandlerFunc // answers instead; nil: nobody does
	asked  int
	sent   []byte // the last picture
}

func serve(t *testing.T) *theirs {
	s := &theirs{t: t, answer: `{"CelebrityFaces":[],"UnrecognizedFaces":[]}`}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *theirs) config() rekognition.Config {
	return rekognition.Config{Region: region, KeyID: keyID, Secret: secret, Session: session, URL: s.URL}
}

func (s *theirs) open(t *testing.T) faces.Recognizer {
	t.Helper()
	r, err := rekognition.New(t.Context(), s.config())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.Header().Set("X-Amzn-Requestid", "0a1b2c3d-0000-4000-8000-000000000000")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc{"__type": kind, "Message": message})
}

func (s *theirs) wrong(w http.ResponseWriter, format string, a ...any) {
	s.t.Errorf("it is not described so: "+format, a...)
	refuse(w, 418, "NotDescribed", fmt.Sprintf(format, a...))
}

func (s *theirs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.asked++
	scene, answer := s.scene, s.answer
	s.mu.Unlock()
	switch {
	case r.Method != http.MethodPost || r.URL.String() != "/":
		s.wrong(w, "%s %s", r.Method, r.URL)
	case r.Header.Get("Content-Type") != "application/x-amz-json-1.1":
		s.wrong(w, "Content-Type %s", r.Header.Get("Content-Type"))
	case r.Header.Get("X-Amz-Target") != "RekognitionService.RecognizeCelebrities":
		s.wrong(w, "X-Amz-Target %s", r.Header.Get("X-Amz-Target"))
	case signed(r, body) != nil:
		s.wrong(w, "%v", signed(r, body))
	case scene != nil:
		scene(w, r)
	default:
		s.look(w, body, answer)
	}
}

// look takes a picture or refuses it.
func (s *theirs) look(w http.ResponseWriter, body []byte, answer string) {
	var q struct {
		Image *struct {
			Bytes *string `json:"Bytes"`
		} `json:"Image"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil || d.More() || q.Image == nil || q.Image.Bytes == nil {
		s.wrong(w, "%.200s: %v", body, err)
		return
	}
	raw, err := base64.StdEncoding.DecodeString(*q.Image.Bytes)
	if err != nil {
		refuse(w, 400, "SerializationException", "")
		return
	}
	c, _, err := image.DecodeConfig(bytes.NewReader(raw)) // JPEG and PNG are all that this program can decode
	switch {
	case len(raw) > 5_242_880:
		refuse(w, 400, "ImageTooLargeException", "Image size is too large")
	case err != nil:
		refuse(w, 400, "InvalidImageFormatException", "Request has invalid image format")
	case c.Width < 80 || c.Height < 80:
		refuse(w, 400, "InvalidParameterException", "Request has invalid parameters")
	case c.Width > 10_000 || c.Height > 10_000:
		refuse(w, 400, "ImageTooLargeException", "Image dimensions: too large")
	default:
		s.mu.Lock()
		s.sent = raw
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_, _ = io.WriteString(w, answer)
	}
}

var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/rekognition/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$`)

// signed checks the signature of a request.
func signed(r *http.Request, body []byte) error {
	m := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	date := r.Header.Get("X-Amz-Date")
	switch {
	case m == nil:
		return fmt.Errorf("authorization %q", r.Header.Get("Authorization"))
	case m[1] != keyID || m[3] != region || !strings.HasPrefix(date, m[2]+"T"):
		return fmt.Errorf("of %s in %s at %s", m[1], m[3], date)
	case r.Header.Get("X-Amz-Security-Token") != session:
		return fmt.Errorf("session %q", r.Header.Get("X-Amz-Security-Token"))
	}
	headers := ""
	for _, name := range strings.Split(m[4], ";") {
		value := strings.Join(strings.Fields(r.Header.Get(name)), " ")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		headers += name + ":" + value + "\n"
	}
	for _, needed := range []string{"host", "x-amz-date", "x-amz-security-token", "x-amz-target", "content-type"} {
		if !strings.Contains(";"+m[4]+";", ";"+needed+";") {
			return fmt.Errorf("%s is not signed", needed)
		}
	}
	canonical := "POST\n/\n\n" + headers + "\n" + m[4] + "\n" + hash(body)
	text := "AWS4-HMAC-SHA256\n" + date + "\n" + m[2] + "/" + region + "/rekognition/aws4_request\n" + hash([]byte(canonical))
	key := []byte("AWS4" + secret)
	for _, part := range []string{m[2], region, "rekognition", "aws4_request", text} {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	if want := hex.EncodeToString(key); want != m[5] {
		return fmt.Errorf("signature %s, want %s", m[5], want)
	}
	return nil
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// said is an answer with everything that is described of it. Face.Confidence is high for everybody: a client that reads it is wrong.
func said(seen faces.Recognition) string {
	faced := func(b *faces.Box) doc {
		face := doc{
			"Confidence": 99.99, "Landmarks": []doc{{"Type": "eyeLeft", "X": .3, "Y": .4}}, "Pose": doc{"Roll": -1.5, "Yaw": 2, "Pitch": 3},
			"Quality": doc{"Brightness": 50.5, "Sharpness": 60}, "Emotions": []doc{{"Type": "HAPPY", "Confidence": 99}}, "Smile": doc{"Value": true, "Confidence": 98},
		}
		if b != nil {
			face["BoundingBox"] = doc{"Left": b.Left, "Top": b.Top, "Width": b.Width, "Height": b.Height}
		}
		return face
	}
	celebrities, unknown := []doc{}, []doc{}
	for i, f := range seen.Faces {
		celebrities = append(celebrities, doc{
			"Name": f.Name, "Id": fmt.Sprintf("2X3fY%d", i), "MatchConfidence": f.Confidence, "Urls": f.URLs, "KnownGender": doc{"Type": "Female"}, "Face": faced(f.Box),
		})
	}
	for range seen.Unknown {
		unknown = append(unknown, faced(&faces.Box{Left: .5, Top: .5, Width: .1, Height: .1}))
	}
	out, _ := json.Marshal(doc{"CelebrityFaces": celebrities, "UnrecognizedFaces": unknown, "OrientationCorrection": nil})
	return string(out)
}
