package picture

import (
	"bytes"
	"encoding/binary"
)

// orientation reads the one tag of EXIF that changes what is seen, as CIPA DC-008 has it: which of the eight ways a camera was
// held. Whatever is not understood means upright.
func orientation(tiff []byte) int {
	const (
		tag   = 0x0112
		entry = 12 // bytes
	)
	if len(tiff) < 8 {
		return 1
	}
	var order binary.ByteOrder
	switch string(tiff[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := order.Uint32(tiff[4:])
	if uint64(at)+2 > uint64(len(tiff)) {
		return 1
	}
	list := tiff[at:]
	for n, list := order.Uint16(list), list[2:]; n > 0 && len(list) >= entry; n, list = n-1, list[entry:] {
		if order.Uint16(list) != tag {
			continue
		}
		turn := uint32(0)
		switch order.Uint16(list[2:]) {
		case 3: // SHORT
			turn = uint32(order.Uint16(list[8:]))
		case 4: // LONG, which some write
			turn = order.Uint32(list[8:])
		}
		if turn >= 1 && turn <= 8 {
			return int(turn)
		}
		return 1
	}
	return 1
}

const exifMark = "Exif\x00\x00"

// exifOfPNG finds the chunk eXIf, as https://www.w3.org/TR/png-3/#eXIf has it.
func exifOfPNG(raw []byte) []byte {
	const frame = 12 // bytes of a chunk beside its content: length, name, sum
	for rest := raw[8:]; len(rest) >= frame; {
		n := uint64(binary.BigEndian.Uint32(rest))
		if n > uint64(len(rest)-frame) {
			return nil
		}
		if string(rest[4:8]) == "eXIf" {
			return rest[8 : 8+n]
		}
		rest = rest[frame+n:]
	}
	return nil
}

// exifOfWebP finds the chunk EXIF, as https://developers.google.com/speed/webp/docs/riff_container has it.
func exifOfWebP(raw []byte) []byte {
	for rest := raw[12:]; len(rest) >= 8; {
		n := uint64(binary.LittleEndian.Uint32(rest[4:]))
		if n > uint64(len(rest)-8) {
			return nil
		}
		if string(rest[:4]) == "EXIF" {
			return bytes.TrimPrefix(rest[8:8+n], []byte(exifMark))
		}
		rest = rest[min(8+n+n%2, uint64(len(rest))):]
	}
	return nil
}
