// Package rekognition is Amazon Rekognition's recognition of celebrities, over the official SDK.
//
// How sure it is that a face is somebody's is MatchConfidence; Face.Confidence is only how sure it is that there is a face, and is
// never read. It may never retry (the engine does), send what the service is known to refuse, or choose a region by itself.
//
// Start reading at New; picture.go is what it takes, answer.go what it says, refusal.go why it does not.
package rekognition

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/rekognition"
	"github.com/aws/aws-sdk-go-v2/service/rekognition/types"

	"pawl/internal/picture"
	"pawl/internal/rest"
	"pawl/ports/faces"
)

// Config is how the service is asked. What is empty is found as the SDK finds it: in the AWS_ variables, the shared files, and what a
// machine or a container is given (https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html).
type Config struct {
	Region  string
	KeyID   string // with Secret: a key of its own
	Secret  string
	Session string // of a temporary key
	URL     string // empty: the service's in the region

	Within time.Duration // a call may last; 0: 60 s
	HTTP   *http.Client
	Room   *picture.Room // where pictures are made to fit; nil: one of its own
}

const (
	name       = "rekognition"
	mostAnswer = 2 << 20 // bytes: 64 faces with all that is measured of them are a tenth of it
)

type recognizer struct {
	ask    asking
	within time.Duration
	room   *picture.Room
	keys   *keys
}

// asking is the one operation that is used. A field with the whole client would link all of them.
type asking func(context.Context, *sdk.RecognizeCelebritiesInput, ...func(*sdk.Options)) (*sdk.RecognizeCelebritiesOutput, error)

var _ faces.Fitter = (*recognizer)(nil)

// New is the recognizer of a region. Files and variables are read, and nobody is asked yet.
func New(ctx context.Context, c Config) (faces.Recognizer, error) {
	find := []func(*config.LoadOptions) error{config.WithRegion(c.Region)}
	if c.KeyID != "" || c.Secret != "" {
		find = append(find, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(c.KeyID, c.Secret, c.Session)))
	}
	found, err := config.LoadDefaultConfig(ctx, find...)
	unset := func(text string) error {
		return faces.Failure{Recognizer: name, Code: faces.CodeUnset, Text: text, After: -1}.Fault()
	}
	switch {
	case err != nil:
		return nil, unset(rest.Line(rest.Mask(err.Error(), []string{c.Secret, c.Session})))
	case found.Region == "":
		return nil, unset("no region: AWS_REGION has it, for example us-east-1")
	}
	r := &recognizer{within: cmp.Or(c.Within, time.Minute), room: c.Room, keys: &keys{CredentialsProvider: found.Credentials}}
	if r.room == nil {
		r.room = picture.NewRoom(0)
	}
	found.Credentials = r.keys
	r.ask = sdk.NewFromConfig(found, func(o *sdk.Options) {
		o.Retryer = aws.NopRetryer{}
		o.HTTPClient = plain(c.HTTP)
		if c.URL != "" {
			o.BaseEndpoint = &c.URL
		}
	}).RecognizeCelebrities
	return r, nil
}

// Name is "rekognition".
func (r *recognizer) Name() string { return name }

// Recognize shows the picture to the service, made to fit.
func (r *recognizer) Recognize(ctx context.Context, p faces.Picture) (faces.Recognition, error) {
	p, err := r.Fit(ctx, p)
	if err != nil {
		return faces.Recognition{}, err
	}
	call, stop := context.WithTimeout(ctx, r.within)
	defer stop()
	out, err := r.ask(call, &sdk.RecognizeCelebritiesInput{Image: &types.Image{Bytes: p.Bytes}})
	if err != nil && call.Err() != nil {
		return faces.Recognition{}, faces.FaultOf(name, call.Err()) // whatever it has led to
	}
	var seen faces.Recognition
	if err == nil {
		seen, err = recognition(out)
	}
	if err != nil {
		return faces.Recognition{}, r.fault(err)
	}
	return seen, nil
}

// keys are credentials whose absence can be told from other errors, and that no error tells.
type keys struct {
	aws.CredentialsProvider
	last atomic.Pointer[aws.Credentials]
}

// keyError is why there are no credentials.
type keyError struct{ error }

func (e *keyError) Unwrap() error { return e.error }

// Retrieve gives the credentials.
func (k *keys) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := k.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, &keyError{err}
	}
	k.last.Store(&found)
	return found, nil
}

// hide takes the credentials out of a text.
func (k *keys) hide(text string) string {
	if found := k.last.Load(); found != nil {
		text = rest.Mask(text, []string{found.SecretAccessKey, found.SessionToken})
	}
	return text
}

// plain is a client that follows nobody elsewhere and reads no answer without end.
func plain(c *http.Client) *http.Client {
	var own http.Client
	if c != nil {
		own = *c
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	own.Transport = bounded{cmp.Or[http.RoundTripper](own.Transport, http.DefaultTransport)}
	return &own
}

type bounded struct{ http.RoundTripper }

// RoundTrip bounds what is read of the answer.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, mostAnswer)
	}
	return resp, err
}
