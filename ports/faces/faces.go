// Package faces is the port to the recognition of public figures in a picture.
//
// It may never compare faces of private people, keep a picture or a face, fetch anything, or know a vendor. Whom a recognizer names
// it names by itself: nothing that a caller expects is told to it.
//
// Start reading at Recognizer, Failure and Remedy; facestest is the law that every vendor passes, album the one that is built in.
package faces

import "context"

// Recognizer is one service that recognizes public figures, safe for concurrent use. It makes one attempt and never retries; its
// errors are those of this package (see Failure). That nobody is recognized is no error.
type Recognizer interface {
	Name() string // "rekognition", for people and records
	Recognize(ctx context.Context, p Picture) (Recognition, error)
}

// Picture is what is looked at.
type Picture struct {
	URL   string // where it was found; a recognizer that knows pictures by that needs no bytes
	Type  string // as its bytes say: "image/jpeg"
	Bytes []byte
}

// Recognition is who was seen in one picture. The same picture gives the same order: the surest first.
type Recognition struct {
	Faces      []Face `json:"faces"`                // each with a name; never nil
	Unknown    int    `json:"unknown,omitempty"`    // faces of nobody that the recognizer knows
	Documented bool   `json:"documented,omitempty"` // by what is known of the picture, and not by looking at it: the confidences are no measurements
}

// Face is one public figure.
type Face struct {
	Name       string   `json:"name"`
	Confidence float64  `json:"confidence"`    // that it is this person, 0 to 100
	Box        *Box     `json:"box,omitempty"` // nil: not known
	URLs       []string `json:"urls,omitempty"`
}

// Box is where a face is, as parts of the picture's width and height; a face that is cut off by an edge may reach beyond it.
type Box struct {
	Left   float64 `json:"left"`
	Top    float64 `json:"top"`
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
}
