// Package fetch is the port to what stands at an address that a person, a page or a model has named.
//
// It may never reach what is not public, follow where it may not go itself, hold more than its limits, or tell about the inside of
// a network in an error.
//
// Start reading at Fetcher and Failure; fetchtest is the law that every vendor passes, web the one that goes out.
package fetch

import "context"

// Fetcher fetches pictures, safe for concurrent use. It makes one attempt and never retries; its errors are those of this package
// (see Failure).
type Fetcher interface {
	Image(ctx context.Context, url string) (Image, error)
}

// Getter fetches whatever stands at an address, under the same rules.
type Getter interface {
	Get(ctx context.Context, url string) (Document, error)
}

// Image is a picture that can be decoded: its header was read, and its pixels counted, before anything else.
type Image struct {
	URL     string // where it stood in the end
	Type    string // as its bytes say: image/jpeg, image/png, image/gif, image/webp
	Width   int    // pixels, after the orientation that it carries was applied
	Height  int
	Bytes   []byte // as they came; the orientation still stands in them
	Partial bool   // the source has promised more bytes than it sent, or the end is missing, and yet it can be decoded
	Review  string // why a person should look at the address; empty: nothing is odd about it
}

// Document is anything.
type Document struct {
	URL     string // where it stood in the end
	Type    string // as its bytes say, with the character set of a text where it is known: "text/html; charset=utf-8"
	Bytes   []byte // unpacked
	Partial bool   // the source has promised more bytes than it sent
	Review  string // as that of an Image
}
