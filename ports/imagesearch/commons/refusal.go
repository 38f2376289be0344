package commons

import (
	"encoding/json"
	"strings"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/imagesearch"
)

// meanings say what the codes of errors mean, https://www.mediawiki.org/wiki/API:Errors_and_warnings. Those that are not here pass.
var meanings = map[string]string{
	"ratelimited": imagesearch.CodeRateLimited, "cirrussearch-too-busy-error": imagesearch.CodeRateLimited,
	"blocked": pawl.CodeForbidden, "autoblocked": pawl.CodeForbidden, "permissiondenied": pawl.CodeForbidden, "readapidenied": pawl.CodeForbidden,
	"badvalue": pawl.CodeInvalid, "badinteger": pawl.CodeInvalid, "missingparam": pawl.CodeInvalid,
	"cirrussearch-query-too-long": pawl.CodeInvalid,
	"maxlag":                      pawl.CodeUnavailable, "readonly": pawl.CodeUnavailable,
}

// refuses says whether an answer is an error, which comes with status 200.
func refuses(answer json.RawMessage) bool {
	var a struct {
		Error json.RawMessage `json:"error"`
	}
	return json.Unmarshal(answer, &a) == nil && len(a.Error) > 0
}

func fault(err error) error { return imagesearch.FaultOf(name, err, explain) }

// explain reads the words of a refusal.
func explain(f *imagesearch.Failure, body []byte) {
	var c struct {
		Error struct {
			Code string `json:"code"`
			Info string `json:"info"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &c) != nil || c.Error.Code == "" {
		return // what is of another form says nothing
	}
	f.Text = rest.Line(c.Error.Code + ": " + c.Error.Info)
	if meant, known := meanings[c.Error.Code]; known {
		f.Code = meant
	} else if strings.HasPrefix(c.Error.Code, "unknown_") {
		f.Code = pawl.CodeInvalid
	}
}
