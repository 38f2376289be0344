package rekognition

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/rekognition"
	"github.com/aws/aws-sdk-go-v2/service/rekognition/types"

	"pawl/ports/faces"
)

// recognition reads an answer. A confidence that is none makes all of it doubtful; a face without a name is nobody's.
func recognition(out *sdk.RecognizeCelebritiesOutput) (faces.Recognition, error) {
	seen := faces.Recognition{Faces: []faces.Face{}, Unknown: len(out.UnrecognizedFaces)}
	for _, c := range out.CelebrityFaces {
		who := strings.TrimSpace(aws.ToString(c.Name))
		if who == "" {
			seen.Unknown++
			continue
		}
		sure, ok := number(c.MatchConfidence)
		if !ok || sure < 0 || sure > 100 {
			return faces.Recognition{}, fmt.Errorf("the answer names %.100q with a confidence that is none", who)
		}
		seen.Faces = append(seen.Faces, faces.Face{Name: who, Confidence: sure, Box: box(c.Face), URLs: slices.Clone(c.Urls)})
	}
	slices.SortStableFunc(seen.Faces, func(a, b faces.Face) int {
		return cmp.Or(cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(a.Name, b.Name), cmp.Compare(left(a), left(b)))
	})
	return seen, nil
}

// box is where a face is; nil: the service does not say it whole.
func box(f *types.ComparedFace) *faces.Box {
	if f == nil || f.BoundingBox == nil {
		return nil
	}
	b := f.BoundingBox
	var sides [4]float64
	for i, v := range []*float32{b.Left, b.Top, b.Width, b.Height} {
		var ok bool
		if sides[i], ok = number(v); !ok {
			return nil
		}
	}
	return &faces.Box{Left: sides[0], Top: sides[1], Width: sides[2], Height: sides[3]}
}

func left(f faces.Face) float64 {
	if f.Box == nil {
		return 0
	}
	return f.Box.Left
}

// number is a number as it was written: 99.9 and not 99.9000015. The SDK reads NaN and infinities too.
func number(v *float32) (float64, bool) {
	if v == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(strconv.FormatFloat(float64(*v), 'g', -1, 32), 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}
