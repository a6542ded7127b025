# A file cannot smuggle control characters into the message.
printf "{\"schema\": \"zeroledger.run/1\", \"\\\\u001b[31mred\": 1}" >run.json
zl predict --run run.json
