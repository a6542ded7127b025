zl predct
