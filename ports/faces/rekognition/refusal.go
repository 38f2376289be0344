package rekognition

import (
	"errors"
	"net/http"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/faces"
)

// meanings are what the types of errors mean, those of the operation
// (https://docs.aws.amazon.com/rekognition/latest/APIReference/API_RecognizeCelebrities.html) and those of all services
// (https://docs.aws.amazon.com/rekognition/latest/APIReference/CommonErrors.html).
var meanings = map[string]string{
	"ImageTooLargeException":      faces.CodeTooLarge,
	"InvalidImageFormatException": faces.CodeType,
	"InvalidParameterException":   faces.CodePicture, // the picture is the only parameter

	"ProvisionedThroughputExceededException": faces.CodeRateLimited, "ThrottlingException": faces.CodeRateLimited, "Throttling": faces.CodeRateLimited,
	"LimitExceededException": faces.CodeRateLimited, "TooManyRequestsException": faces.CodeRateLimited, "RequestLimitExceeded": faces.CodeRateLimited,
	"InternalServerError": pawl.CodeUnavailable, "InternalFailure": pawl.CodeUnavailable, "InternalFailureException": pawl.CodeUnavailable,
	"ServiceUnavailable": pawl.CodeUnavailable, "ServiceUnavailableException": pawl.CodeUnavailable, "RequestTimeout": pawl.CodeTimeout,

	"AccessDeniedException": pawl.CodeForbidden, "NotAuthorized": pawl.CodeForbidden, "OptInRequired": pawl.CodeForbidden,
	"UnrecognizedClientException": pawl.CodeForbidden, "InvalidClientTokenId": pawl.CodeForbidden, "SubscriptionRequiredException": pawl.CodeForbidden,
	"MissingAuthenticationToken": pawl.CodeForbidden, "MissingAuthenticationTokenException": pawl.CodeForbidden,
	"InvalidSignatureException": pawl.CodeForbidden, "IncompleteSignature": pawl.CodeForbidden, "IncompleteSignatureException": pawl.CodeForbidden,
	"ExpiredTokenException": pawl.CodeForbidden, "ExpiredToken": pawl.CodeForbidden, "RequestExpired": pawl.CodeForbidden,
}

// fault is an error of the SDK, or of an answer, in this port's words.
func (r *recognizer) fault(err error) error {
	f := faces.Failure{Recognizer: name, Code: pawl.CodeUnavailable, Text: err.Error(), After: -1}
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		if f.Status = answer.HTTPStatusCode(); f.Status/100 != 2 {
			f.Code = statusCode(f.Status)
		}
		f.Text = answer.Err.Error()
	}
	var said smithy.APIError
	var unread *smithy.DeserializationError
	var key *keyError
	switch {
	case errors.As(err, &key):
		f.Code, f.Text = faces.CodeUnset, "no credentials: "+key.Error()
	case errors.As(err, &unread):
		f.Text = "the answer is none of the service: " + unread.Error()
	case errors.As(err, &said):
		f.Text = said.ErrorCode() + ": " + said.ErrorMessage()
		if code := meanings[said.ErrorCode()]; code != "" {
			f.Code = code
		}
	}
	f.Text = rest.Line(r.keys.hide(f.Text))
	return f.Fault()
}

// statusCode is the code of a refusal by its status: what holds where the body does not say more.
func statusCode(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return pawl.CodeForbidden
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return pawl.CodeTimeout
	case http.StatusRequestEntityTooLarge:
		return faces.CodeTooLarge
	case http.StatusTooManyRequests:
		return faces.CodeRateLimited
	}
	if status >= 400 && status < 500 {
		return pawl.CodeInvalid
	}
	return pawl.CodeUnavailable
}
