package telemetry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"pawl"
	"pawl/internal/rest"
)

// sender puts spans into requests to one receiver.
type sender struct {
	client   otlptrace.Client
	resource *resourcepb.Resource
	secrets  []string // what no error may tell
	fault    func(op string, err error)
}

func newSender(c Config) (sender, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return sender{}, &pawl.Error{Code: pawl.CodeInvalid, Op: "traces", Text: "the receiver's address is no http or https address"}
	}
	options := []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(c.URL),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}), // the log is tried again, not the request
		otlptracehttp.WithProxy(noRedirect),
	}
	var secrets []string
	if len(c.Headers) > 0 {
		plain := map[string]string{}
		for name, value := range c.Headers {
			plain[name] = value.Reveal()
			secrets = append(secrets, plain[name], plain[name][strings.LastIndexByte(plain[name], ' ')+1:]) // Basic KEY
		}
		options = append(options, otlptracehttp.WithHeaders(plain))
	}
	otel.SetLogger(logr.Discard()) // it would print variables that it cannot read, secrets among them
	from := attrs{}
	if c.Resource["service.name"] == "" {
		from.add("service.name", "pawl")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Resource)) {
		from.add(name, c.Resource[name])
	}
	return sender{otlptracehttp.NewClient(options...), &resourcepb.Resource{Attributes: from}, secrets, c.Fault}, nil
}

// noRedirect is the proxy of the environment, and refuses to go where a receiver sends us: the headers would come along, and a page
// that greets us there has taken no spans. The client has no other place for it that leaves the settings of TLS to the environment.
func noRedirect(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, fmt.Errorf("it answers %s, which is not followed", r.Response.Status)
	}
	return http.ProxyFromEnvironment(r)
}

// send sends the spans of steps in their order, and says how many of the first the receiver has taken or will not have. Where it
// refuses a request for what is in it, that is sent by halves, so that a span that it will not have takes no other with it. Any other
// error says that of what comes behind nothing was taken, or nobody knows. A step is told again as a whole, so it is halved only
// where it is refused alone.
func (s sender) send(ctx context.Context, steps [][]*tracepb.Span) (done, dropped int, err error) {
	spans := slices.Concat(steps...)
	err = s.client.UploadTraces(ctx, []*tracepb.ResourceSpans{{
		Resource:   s.resource,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "pawl"}, Spans: spans}},
	}})
	if err == nil {
		return len(spans), 0, nil
	}
	refuses := refused(err)
	err = errors.New(rest.Mask(err.Error(), s.secrets))
	switch {
	case strings.Contains(err.Error(), "partial success"): // the rest was taken
		s.fault("traces", err)
		return len(spans), 0, nil
	case !refuses:
		return 0, 0, err
	case len(spans) == 1:
		s.fault("traces", fmt.Errorf("the receiver refuses a span, which is left out: %w", err))
		return 1, 1, nil
	case len(steps) == 1:
		steps = [][]*tracepb.Span{spans[:len(spans)/2], spans[len(spans)/2:]}
	}
	half := len(steps) / 2
	if done, dropped, err = s.send(ctx, steps[:half]); err != nil {
		return done, dropped, err
	}
	more, out, err := s.send(ctx, steps[half:])
	return done + more, dropped + out, err
}

// refused tells answers that are about the spans from those about the receiver. The client says them in its text only.
func refused(err error) bool {
	var u *url.Error
	text := err.Error()
	return !errors.As(err, &u) && strings.Contains(text, "failed to send to ") &&
		(strings.Contains(text, ": 400 ") || strings.Contains(text, ": 413 "))
}
