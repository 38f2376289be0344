package visualdegrees

import (
	"context"
	"errors"
	"fmt"

	"pawl"
	"pawl/ports/faces"
	"pawl/ports/imagesearch"
)

// mends is how often a person may say of one call that its service is mended.
const mends = 20

// mending makes a call of a service. Where that would refuse every other call too until a person mends it, the run parks and asks
// (case 54), and makes the call again when it is told to. It returns the key of the last one, too.
func mending[T any](ctx context.Context, key, service string, refuses func(error) bool, make func(key string) (T, error)) (t T, call string, err error) {
	call = key
	for n := 2; ; n++ {
		if t, err = make(call); err == nil || !refuses(err) || n > mends+1 {
			return t, call, err
		}
		again, asked := pawl.Ask[bool](ctx, call+"/mended", pawl.Question{
			Text: fmt.Sprintf("%s %s. Is that mended (true), or shall the search end (false)?", service, refusal(err)),
		})
		var nobody *pawl.AskError
		switch {
		case errors.As(asked, &nobody) || asked == nil && !again:
			return t, call, err
		case asked != nil:
			return t, call, asked
		}
		call = fmt.Sprint(key, "/", n)
	}
}

// refusal is what is wrong, as people are told it. The service's own words stay in the log: they may tell too much (R-000-78).
func refusal(err error) string {
	switch pawl.Coded(err).Code {
	case pawl.CodeForbidden:
		return "refuses us: a key or a permission is wrong"
	case faces.CodeUnset:
		return "is not configured"
	}
	return "does not take requests that are made as they are"
}

func searchParks(err error) bool {
	code := pawl.Coded(err).Code
	return code == pawl.CodeForbidden || code == imagesearch.CodeUnset
}

func facesPark(err error) bool { return faces.RemedyOf(err) == faces.Park }
