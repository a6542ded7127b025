# A program that is there and cannot be started.
mkdir bin
cp "$ZL" bin/zl
printf "#!/no/such/interpreter\n" >bin/zl-train
chmod +x bin/zl-train
bin/zl train 2>&1 | sed "s,/.*/bin,BIN,"
