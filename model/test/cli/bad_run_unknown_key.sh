zl predict --model gpt2-tiny --save-run run.json --out /dev/null
sed -i "s/\"stage\"/\"stagee\"/" run.json
zl predict --run run.json
