package rekognition

import (
	"context"
	"errors"

	"pawl/internal/picture"
	"pawl/ports/faces"
)

// takes is what the service takes: PNG and JPEG of up to 5 MB as raw bytes and at least 80 pixels a side
// (https://docs.aws.amazon.com/rekognition/latest/dg/limits.html). The longest side is described only of other operations of it, as
// 10,000 pixels, and larger pictures have been refused here too.
func takes() picture.Limits {
	return picture.Limits{Types: []string{picture.JPEG, picture.PNG}, MaxBytes: 5 << 20, MinSide: 80, MaxSide: 10_000}
}

// codes are what a picture's own errors are called in this port.
var codes = map[string]string{
	picture.CodeEmpty: faces.CodeCorrupt, picture.CodeCorrupt: faces.CodeCorrupt, picture.CodePage: faces.CodeType, picture.CodeType: faces.CodeType,
	picture.CodePixels: faces.CodeTooLarge, picture.CodeTooLarge: faces.CodeTooLarge, picture.CodeTooSmall: faces.CodeTooSmall,
}

// Fit makes a picture one that the service takes: as JPEG or PNG, and smaller, where it is not.
func (r *recognizer) Fit(ctx context.Context, p faces.Picture) (faces.Picture, error) {
	raw, info, err := r.room.Fit(ctx, p.Bytes, takes())
	var flaw *picture.Error
	switch {
	case errors.As(err, &flaw):
		return faces.Picture{}, faces.Failure{Recognizer: name, Code: codes[flaw.Code], Text: flaw.Text, After: -1}.Fault()
	case err != nil:
		return faces.Picture{}, faces.FaultOf(name, err)
	}
	p.Bytes, p.Type = raw, info.Type
	return p, nil
}
