import os
import time
import numpy as np
import pandas as pd
from PIL import Image
import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import Dataset, DataLoader
from torchvision import models, transforms

device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
IMG_DIR = 'input/images'
CLASSES = ['healthy', 'multiple_diseases', 'rust', 'scab']

train_tf = transforms.Compose([
    transforms.Resize((224, 224)),
    transforms.RandomHorizontalFlip(),
    transforms.RandomVerticalFlip(),
    transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
])
test_tf = transforms.Compose([t for t in train_tf.transforms if 'Random' not in type(t).__name__])

class PlantDataset(Dataset):
    def __init__(self, df, tf, labels=True):
        self.df, self.tf, self.labels = df.reset_index(drop=True), tf, labels

    def __len__(self):
        return len(self.df)

    def __getitem__(self, idx):
        row = self.df.iloc[idx]
        img = self.tf(Image.open(os.path.join(IMG_DIR, row.image_id + '.jpg')).convert('RGB'))
        if self.labels:
            return img, int(np.argmax(row[CLASSES].values))
        return img

# Load the data frames
train_df = pd.read_csv('input/train.csv')
test_df = pd.read_csv('input/test.csv')
train_loader = DataLoader(PlantDataset(train_df, train_tf), batch_size=32, shuffle=True, num_workers=4)
test_loader = DataLoader(PlantDataset(test_df, test_tf, labels=False), batch_size=32, num_workers=4)

# Model
model = models.resnet34(weights=models.ResNet34_Weights.DEFAULT)
model.fc = nn.Linear(model.fc.in_features, 4)
model = model.to(device)
criterion = nn.CrossEntropyLoss()
optimizer = optim.Adam(model.parameters(), lr=1e-4)

# Training loop
for epoch in range(10):
    model.train(); running = 0; start = time.time()
    for images, labels in train_loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward(); optimizer.step()
        running += loss.item()
    print(f'Epoch {epoch+1}: loss {running/len(train_loader):.4f}, {time.time()-start:.0f}s')

# Inference
model.eval()
all_probs = []
with torch.no_grad():
    for images in test_loader:
        all_probs.append(torch.softmax(model(images.to(device)), 1).cpu().numpy())
test_df[CLASSES] = np.concatenate(all_probs)
test_df.to_csv('submission.csv', index=False)
