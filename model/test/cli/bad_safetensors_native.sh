weights() { # FILE HEADER BYTES: a safetensors file of zeros
  printf "\\$(printf %03o $((${#2} & 255)))\\$(printf %03o $((${#2} >> 8)))\0\0\0\0\0\0%s" "$2" >"$1"
  truncate -s "+$3" "$1"
}
weights model.safetensors '{"wte.weight":{"dtype":"F32","shape":[10,4],"data_offsets":[0,160]}}' 160
zl predict --model model.safetensors
